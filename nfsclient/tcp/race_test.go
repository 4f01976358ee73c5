//go:build race

package tcp

func init() { underRace = true }

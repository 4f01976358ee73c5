//go:build race

package iwarp

const raceEnabled = true // the race detector allocates

// Command agent runs inside the lab's virtual machine and executes scripts
// for the test outside. The virtual machine's init starts it.
package main

import (
	"log"
	"net"
	"os"
	"strings"

	"nfsrdma-fuse/scripts/lab"
)

func main() {
	token, err := os.ReadFile("/run/lab/token")
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp4", lab.AgentAddr)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(lab.ServeAgent(l, strings.TrimSpace(string(token))))
}

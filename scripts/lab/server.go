package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ServerStop stops the NFS server. Its clients lose their connections, and
// the server forgets all they had open or locked, as in a reboot.
func (vm *VM) ServerStop(ctx context.Context) error {
	_, err := vm.Exec(ctx, "/run/lab/server stop")
	return err
}

// ServerStart starts the NFS server again. With keepGrace the clients it knew
// get their grace period (Options.Grace) to reclaim what they had; otherwise
// the server serves anybody at once.
func (vm *VM) ServerStart(ctx context.Context, keepGrace bool) error {
	script := "/run/lab/server start"
	if keepGrace {
		script += " keepgrace"
	}
	_, err := vm.Exec(ctx, script)
	return err
}

// Client is an NFSv4 client as the server sees it.
type Client struct {
	ID      string // number of its directory under /proc/fs/nfsd/clients
	Address string // address:port, port 0 over RDMA
	Name    string // co_ownerid of EXCHANGE_ID
	Status  string // "confirmed", "courtesy", "expirable" or "unconfirmed"
	Minor   string // minor version
	Back    string // state of the back channel, "UP" when it works
	States  string // its opens, locks and delegations, as nfsd lists them
}

// Clients lists the clients that the server knows.
func (vm *VM) Clients(ctx context.Context) ([]Client, error) {
	// A client may go between the listing and the reading.
	out, err := vm.Exec(ctx, `
		cd /proc/fs/nfsd/clients || exit
		for d in *; do
			info=$(cat "$d/info" 2>/dev/null) || continue
			printf '%s\n%s\n\001' "$d" "$info"
			cat "$d/states" 2>/dev/null
			printf '\002'
		done`)
	if err != nil {
		return nil, err
	}
	return parseClients(out), nil
}

func parseClients(out string) (clients []Client) {
	for record := range strings.SplitSeq(strings.TrimSuffix(out, "\x02"), "\x02") {
		info, states, ok := strings.Cut(record, "\x01")
		if !ok {
			continue
		}
		var c Client
		c.ID, info, _ = strings.Cut(info, "\n")
		c.States = strings.TrimSpace(states)
		for line := range strings.Lines(info) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			value = strings.Trim(value, `"`)
			switch key {
			case "address":
				c.Address = value
			case "name":
				c.Name = value
			case "status":
				c.Status = value
			case "minor version":
				c.Minor = value
			case "callback state":
				c.Back = value
			}
		}
		clients = append(clients, c)
	}
	return clients
}

// Connection is a connection that a client has with the server.
type Connection struct {
	Road string // "siw0", "rxe0" or "tcp"
	Peer string // address:port; a client on the host comes from 10.0.2.2
}

// Connections lists the established connections of the server, over both RDMA
// devices and over TCP.
func (vm *VM) Connections(ctx context.Context) ([]Connection, error) {
	out, err := vm.Exec(ctx, `
		rdma -j resource show cm_id
		printf '\001'
		ss -Htn state established sport = :2049`)
	if err != nil {
		return nil, err
	}
	return parseConnections(out)
}

func parseConnections(out string) (conns []Connection, err error) {
	ids, tcp, ok := strings.Cut(out, "\x01")
	if !ok {
		return nil, fmt.Errorf("connections: cannot read %q", out)
	}
	var list []struct {
		Device string `json:"ifname"`
		State  string `json:"state"`
		Local  string `json:"src-addr"`
		Peer   string `json:"dst-addr"`
	}
	if strings.TrimSpace(ids) != "" {
		if err := json.Unmarshal([]byte(ids), &list); err != nil {
			return nil, fmt.Errorf("connections: %w", err)
		}
	}
	for _, id := range list {
		if id.State == "CONNECT" && strings.HasSuffix(id.Local, ":"+portRDMA.port) {
			conns = append(conns, Connection{id.Device, id.Peer})
		}
	}
	for line := range strings.Lines(tcp) {
		if f := strings.Fields(line); len(f) >= 4 { // queues, local, peer
			conns = append(conns, Connection{"tcp", f[3]})
		}
	}
	return conns, nil
}

// WaitIdle waits until the server knows no client and has no connection, and
// says what is left when ctx ends before.
func (vm *VM) WaitIdle(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		clients, err1 := vm.Clients(ask)
		conns, err2 := vm.Connections(ask)
		cancel()
		if err1 != nil {
			return err1
		}
		if err2 != nil {
			return err2
		}
		if len(clients) == 0 && len(conns) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the server still has clients %+v and connections %+v: %w", clients, conns, context.Cause(ctx))
		}
	}
}

// troubleWords mark kernel messages that no run of the lab may cause.
var troubleWords = []string{"BUG:", "WARNING:", "Oops", "blocked for more than", "general protection", "refcount_t", "use-after-free", "Call Trace"}

// Trouble returns the machine's kernel messages that tell of a fault in the
// kernel. They are a finding about the server, or about what a client did to it.
func (vm *VM) Trouble(ctx context.Context) ([]string, error) {
	out, err := vm.Exec(ctx, "dmesg")
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for line := range strings.Lines(out) {
		if slices.ContainsFunc(troubleWords, func(word string) bool { return strings.Contains(line, word) }) {
			found[strings.TrimSpace(line)] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

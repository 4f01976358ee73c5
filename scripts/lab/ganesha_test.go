package lab

import (
	"strings"
	"testing"
)

func TestWatchGanesha(t *testing.T) {
	for name, test := range map[string]struct {
		log   string
		ready bool
		err   string
	}{
		"ready": {
			"[main] NFS Server Now IN GRACE, duration 5\n[main] NFS Server Now NOT IN GRACE\n[main] NFS SERVER INITIALIZED\n[main] NFS EXIT: regular exit\n",
			true, "",
		},
		"grace ends late": {
			"[main] NFS Server Now IN GRACE, duration 5\n[main] NFS SERVER INITIALIZED\n[reaper] NFS Server Now NOT IN GRACE\n",
			true, "",
		},
		"still in grace":    {"NFS Server Now IN GRACE\nNFS SERVER INITIALIZED\n", false, "ended while it started"},
		"port taken":        {"DISP :FATAL :Cannot bind NFS tcp6 socket, error 98 (Address already in use)\n", false, "taken"},
		"no export":         {":CRIT :no such file system\n:CRIT :Could not create export for (/)\nNFS SERVER INITIALIZED\n", false, "no such file system"},
		"says why it ended": {":CRIT :no dbus\n:FATAL :no export\n:CRIT :more\n", false, ":FATAL :no export"},
	} {
		t.Run(name, func(t *testing.T) {
			ready, bad := make(chan struct{}), make(chan error, 1)
			watchGanesha(strings.NewReader(test.log), ready, bad)
			select {
			case <-ready:
				if !test.ready {
					t.Error("taken for ready")
				}
			case err := <-bad:
				if test.ready || !strings.Contains(err.Error(), test.err) {
					t.Errorf("%v, want %q", err, test.err)
				}
			default:
				t.Error("neither ready nor failed")
			}
		})
	}
}

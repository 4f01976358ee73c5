package lab

import (
	"reflect"
	"testing"
)

func TestParseClients(t *testing.T) {
	out := "7\nclientid: 0xddd3d6f66b00ec68\naddress: \"10.0.2.15:0\"\nstatus: confirmed\nseconds from last renew: 0\n" +
		"name: \"Linux NFSv4.1 lab\"\nminor version: 1\ncallback state: UP\n\x01- 0x01: { type: deleg }\n\x02" +
		"9\naddress: \"[fec0::2]:770\"\nstatus: unconfirmed\n\x01\x02"
	want := []Client{
		{ID: "7", Address: "10.0.2.15:0", Name: "Linux NFSv4.1 lab", Status: "confirmed", Minor: "1", Back: "UP", States: "- 0x01: { type: deleg }"},
		{ID: "9", Address: "[fec0::2]:770", Status: "unconfirmed"},
	}
	if got := parseClients(out); !reflect.DeepEqual(got, want) {
		t.Errorf("parseClients = %+v\nwant %+v", got, want)
	}
	// The pattern of an empty directory stays as it is, and has no info.
	if got := parseClients(""); got != nil {
		t.Errorf("parseClients of nothing = %+v", got)
	}
}

func TestParseConnections(t *testing.T) {
	out := `[ {"ifname":"rxe0","state":"LISTEN","src-addr":"0.0.0.0:20049"}
		,{"ifname":"rxe0","state":"CONNECT","src-addr":"10.0.2.15:33676","dst-addr":"10.0.2.15:20049"}
		,{"ifname":"rxe0","state":"CONNECT","src-addr":"10.0.2.15:20049","dst-addr":"10.0.2.15:33676"}
		,{"ifname":"siw0","state":"CONNECT","src-addr":"10.0.2.15:20049","dst-addr":"10.0.2.2:40312"} ]` + "\x01" +
		"0      0      10.0.2.15:2049   10.0.2.2:58120\n"
	want := []Connection{{"rxe0", "10.0.2.15:33676"}, {"siw0", "10.0.2.2:40312"}, {"tcp", "10.0.2.2:58120"}}
	got, err := parseConnections(out)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parseConnections = %+v, %v\nwant %+v", got, err, want)
	}
	if got, err := parseConnections("[ ]\x01"); err != nil || got != nil {
		t.Errorf("parseConnections of nothing = %+v, %v", got, err)
	}
	for _, bad := range []string{"", "{\x01"} {
		if _, err := parseConnections(bad); err == nil {
			t.Errorf("parseConnections(%q) succeeded", bad)
		}
	}
}

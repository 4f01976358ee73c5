package nfs4

import (
	"errors"
	"testing"

	"nfsrdma-fuse/xdr"
)

func TestFilehandleClone(t *testing.T) {
	msg := []byte{0, 0, 0, 4, 1, 2, 3, 4}
	var fh FH
	fh.Decode(xdr.NewDecoder(msg))
	kept := fh.Clone()
	msg[4] = 9
	if fh[0] != 9 || kept[0] != 1 {
		t.Errorf("filehandle %v does not alias the message, or its copy %v does", fh, kept)
	}
}

func TestSpecialStateIDs(t *testing.T) {
	for _, s := range []StateID{AnonymousStateID, BypassStateID, CurrentStateID, InvalidStateID} {
		if !s.IsSpecial() {
			t.Errorf("%+v is not special", s)
		}
	}
	if goldenStateID.IsSpecial() {
		t.Error("an ordinary stateid is special")
	}
}

// TestArmWithoutMeaning has discriminants that no arm belongs to: nothing is
// sent for them, and nothing taken.
func TestArmWithoutMeaning(t *testing.T) {
	for name, v := range map[string]item{
		"create mode":      &OpenArgs{Create: true, How: 4},
		"claim":            &OpenArgs{Claim: 7},
		"delegation type":  &Delegation{Type: 4},
		"space limit":      &Delegation{Type: DelegateWrite, LimitBy: 3},
		"delegation claim": &WantDelegationArgs{Claim: ClaimNull},
		"callback flavor":  &CallbackSec{Flavor: 4},
		"network location": &NetLoc{Type: 4},
		"layout recall":    &CBLayoutRecallArgs{Type: LayoutFiles, IOMode: LayoutIORead, Recall: 4},
	} {
		var e xdr.Encoder
		v.Encode(&e)
		if e.Err() == nil {
			t.Errorf("%s: encoded to %x", name, e.Bytes())
		}
	}
	for name, c := range map[string]struct {
		d *xdr.Decoder
		v item
	}{
		"create mode":      {stream(0, 1, 0, 0, 0, []byte{}, 1, 4), &OpenArgs{}},
		"claim":            {stream(0, 1, 0, 0, 0, []byte{}, 0, 7), &OpenArgs{}},
		"delegation type":  {stream(4), &Delegation{}},
		"space limit":      {stream(2, 0, 0, 0, 0, 0, 3, 0, 0), &Delegation{}},
		"delegation claim": {stream(0, int(ClaimNull)), &WantDelegationArgs{}},
		"callback flavor":  {stream(4), &CallbackSec{}},
		"GSS service":      {stream(6, 0, []byte{}, []byte{}), &CallbackSec{}},
		"network location": {stream(0, []byte{}), &NetLoc{}},
		"layout recall":    {stream(1, 1, 0, 4), &CBLayoutRecallArgs{}},
		"stability":        {stream(&goldenStateID, 0, 0, 3, []byte{}), &WriteArgs{}},
		"lock type":        {stream(5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), &LockArgs{}},
		"protection":       {stream(0, 0, []byte{}, 0, 3, 0), &ExchangeIDArgs{}},
		"second optional":  {stream(0, 0, []byte{}, 0, 0, 2), &ExchangeIDArgs{}},
		"content":          {stream(2, 0, 0, []byte{}), &Content{}},
	} {
		c.v.Decode(c.d)
		if !errors.Is(c.d.Err(), xdr.ErrRange) {
			t.Errorf("%s: decoded %+v, error %v", name, c.v, c.d.Err())
		}
	}
}

// TestLimits sends one byte or element more than is allowed.
func TestLimits(t *testing.T) {
	long := func(n int) []byte { return make([]byte, n+1) }
	for name, c := range map[string]struct {
		d *xdr.Decoder
		v item
	}{
		"filehandle":       {stream(long(MaxFH)), &PutFHArgs{}},
		"name":             {stream(long(MaxName)), &LookupArgs{}},
		"owner":            {stream(0, 1, 0, 0, 0, long(MaxOwner)), &OpenArgs{}},
		"client owner":     {stream(0, 0, long(MaxOwner)), &ExchangeIDArgs{}},
		"server scope":     {stream(OK, 0, 0, 0, 0, 0, 0, 0, []byte{}, long(MaxOwner)), &ExchangeIDRes{}},
		"data":             {stream(OK, 0, MaxData+1), &ReadRes{}},
		"link text":        {stream(OK, long(MaxLinkText)), &ReadLinkRes{}},
		"link to make":     {stream(5, long(MaxLinkText)), &CreateArgs{}},
		"stateids":         {stream(MaxStateIDs + 1), &TestStateIDArgs{}},
		"groups":           {stream(1, 0, []byte{}, 0, 0, MaxGIDs+1), &CallbackSec{}},
		"machine":          {stream(1, 0, long(MaxMachine)), &CallbackSec{}},
		"flavors":          {stream(OK, MaxSecInfo+1), &SecInfoRes{}},
		"attribute value":  {stream(OK, long(MaxXattrValue)), &GetXattrRes{}},
		"attribute names":  {stream(OK, 0, 0, MaxXattrNames+1), &ListXattrsRes{}},
		"who":              {stream(0, 0, 0, long(MaxOwnerString)), &ACE{}},
		"notifications":    {stream(&goldenStateID, []byte{}, MaxNotifies+1), &CBNotifyArgs{}},
		"referring lists":  {stream(0, 0, 0, 0, 0, 0, 0, 0, MaxReferringLists+1), &CBSequenceArgs{}},
		"contents":         {stream(OK, 0, MaxContents+1), &ReadPlusRes{}},
		"results":          {stream(OK, 0, MaxOps+1), &CompoundRes{}},
		"callback results": {stream(OK, 0, MaxOps+1), &CBCompoundRes{}},
	} {
		c.v.Decode(c.d)
		if !errors.Is(c.d.Err(), xdr.ErrRange) {
			t.Errorf("%s: error %v", name, c.d.Err())
		}
	}
	// A count within the limit that the message cannot hold must not cost
	// memory for what is not there.
	var a TestStateIDArgs
	d := stream(MaxStateIDs, 0)
	if n := testing.AllocsPerRun(1, func() { a.Decode(d) }); n > 2 || !errors.Is(d.Err(), xdr.ErrShort) {
		t.Errorf("%v allocations, error %v", n, d.Err())
	}
}

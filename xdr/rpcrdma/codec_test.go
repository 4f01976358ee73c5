package rpcrdma

import (
	"errors"
	"testing"
)

func TestForVersion(t *testing.T) {
	for v := uint32(MinVersion); v <= MaxVersion; v++ {
		c := ForVersion(v)
		if c == nil || c.Version != v {
			t.Fatalf("version %d: %v", v, c)
		}
		h := Header{XID: 9, Vers: v, Credits: 3, Proc: Msg}
		wire := c.Append(nil, &h)
		if c.Len(&h) != len(wire) {
			t.Errorf("version %d: Len = %d, encoded %d", v, c.Len(&h), len(wire))
		}
		var got Header
		if _, err := c.Decode(&got, wire); err != nil || got.XID != 9 {
			t.Errorf("version %d: decoded %+v, %v", v, got, err)
		}
	}
	if ForVersion(0) != nil || ForVersion(MaxVersion+1) != nil {
		t.Error("a codec for a version that does not exist")
	}
}

func TestPeek(t *testing.T) {
	got, err := Peek(words(1, 77, 3, 4, 2))
	if want := (Fixed{XID: 1, Vers: 77, Credits: 3, Proc: Error}); err != nil || got != want {
		t.Errorf("Peek = %+v, %v", got, err)
	}
	if _, err := Peek(words(1, 1, 3, 0, 0, 0)); !errors.Is(err, ErrShort) {
		t.Errorf("24 bytes: %v", err)
	}
	if _, err := Peek(words(1, 1, 3, 4)); !errors.Is(err, ErrShort) {
		t.Errorf("16 bytes: %v", err)
	}
}

func TestNames(t *testing.T) {
	for want, got := range map[string]string{
		"RDMA_MSG":         Msg.String(),
		"RDMA_NOMSG":       NoMsg.String(),
		"RDMA_MSGP":        MsgP.String(),
		"RDMA_DONE":        Done.String(),
		"RDMA_ERROR":       Error.String(),
		"RDMA procedure 9": Proc(9).String(),
		"ERR_VERS":         ErrVers.String(),
		"ERR_CHUNK":        ErrChunk.String(),
		"RDMA error 9":     ErrCode(9).String(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestChunkLenDoesNotWrap(t *testing.T) {
	c := Chunk{{Length: 1<<32 - 1}, {Length: 1<<32 - 1}}
	if got := c.Len(); got != 2*(1<<32-1) {
		t.Errorf("Len() = %d", got)
	}
}

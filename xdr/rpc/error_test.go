package rpc

import (
	"errors"
	"fmt"
	"testing"
)

func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"rpc: call refused: PROC_UNAVAIL":                                 &Error{Stat: ProcUnavail},
		"rpc: call refused: PROG_MISMATCH, versions 2 to 4 are supported": &Error{Stat: ProgMismatch, Low: 2, High: 4},
		"rpc: call refused: RPC_MISMATCH, versions 2 to 2 are supported":  &Error{Stat: RPCMismatch, Low: 2, High: 2},
		"rpc: call refused: AUTH_ERROR, AUTH_TOOWEAK":                     &Error{Stat: AuthError, Auth: AuthTooWeak},
		"rpc: call refused: AUTH_ERROR, auth status 99":                   &Error{Stat: AuthError, Auth: 99},
		"status 8":               Stat(8),
		"RPCSEC_GSS_CREDPROBLEM": GSSCredProblem,
	} {
		if got := err.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestErrorIs(t *testing.T) {
	wrapped := fmt.Errorf("mount: %w", &Error{Stat: AuthError, Auth: AuthTooWeak})
	var e *Error
	if !errors.As(wrapped, &e) || !errors.Is(wrapped, AuthError) || !errors.Is(wrapped, AuthTooWeak) {
		t.Error("status not found")
	}
	if errors.Is(wrapped, AuthBadCred) || errors.Is(wrapped, GarbageArgs) {
		t.Error("found a status that is not there")
	}
	// The zero AuthStat is in every other Error and means nothing there.
	if errors.Is(&Error{Stat: GarbageArgs}, AuthOK) {
		t.Error("authentication status of a call that was accepted")
	}
}

func TestEveryStatHasAName(t *testing.T) {
	seen := make(map[string]bool)
	for s := Success; s <= AuthError; s++ {
		seen[s.String()] = true
	}
	for s := AuthOK; s <= GSSCtxProblem; s++ {
		seen[s.String()] = true
	}
	if want := int(AuthError) + 1 + int(GSSCtxProblem) + 1; len(seen) != want || seen[""] {
		t.Errorf("%d names, want %d: %v", len(seen), want, seen)
	}
	for want, got := range map[string]string{"CALL": Call.String(), "REPLY": Reply.String(), "message type 2": Type(2).String()} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

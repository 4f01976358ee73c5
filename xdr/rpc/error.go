package rpc

import (
	"errors"
	"fmt"
)

// ErrType means that a message is a call where a reply was expected, or the
// other way round.
var ErrType = errors.New("rpc: message of the wrong type")

// Stat is what became of a call. It joins the two status codes of the protocol:
// those of accepted calls, and those of rejected ones. A Stat is an error, so
// that errors.Is finds it in an *Error.
type Stat uint32

// What can become of a call (RFC 5531 section 9).
const (
	Success      Stat = 0 // carried out; results follow
	ProgUnavail  Stat = 1 // no such program here
	ProgMismatch Stat = 2 // the program has other versions, Low to High
	ProcUnavail  Stat = 3 // the program has no such procedure
	GarbageArgs  Stat = 4 // the arguments could not be decoded
	SystemErr    Stat = 5 // the responder is short of something

	RPCMismatch Stat = 6 // rejected: RPC versions Low to High are spoken here
	AuthError   Stat = 7 // rejected: because of the credential or the verifier
)

func (s Stat) rejects() bool { return s >= RPCMismatch }

func (s Stat) String() string {
	switch s {
	case Success:
		return "SUCCESS"
	case ProgUnavail:
		return "PROG_UNAVAIL"
	case ProgMismatch:
		return "PROG_MISMATCH"
	case ProcUnavail:
		return "PROC_UNAVAIL"
	case GarbageArgs:
		return "GARBAGE_ARGS"
	case SystemErr:
		return "SYSTEM_ERR"
	case RPCMismatch:
		return "RPC_MISMATCH"
	case AuthError:
		return "AUTH_ERROR"
	}
	return fmt.Sprintf("status %d", uint32(s))
}

func (s Stat) Error() string { return s.String() }

// AuthStat says why a credential or verifier was refused. It is an error, so
// that errors.Is finds it in an *Error.
type AuthStat uint32

// Why a call was rejected with AuthError (RFC 5531 section 9).
const (
	AuthOK           AuthStat = 0
	AuthBadCred      AuthStat = 1
	AuthRejectedCred AuthStat = 2
	AuthBadVerf      AuthStat = 3
	AuthRejectedVerf AuthStat = 4
	AuthTooWeak      AuthStat = 5
	AuthInvalidResp  AuthStat = 6
	AuthFailed       AuthStat = 7
	AuthKerbGeneric  AuthStat = 8
	AuthTimeExpire   AuthStat = 9
	AuthTktFile      AuthStat = 10
	AuthDecode       AuthStat = 11
	AuthNetAddr      AuthStat = 12
	GSSCredProblem   AuthStat = 13
	GSSCtxProblem    AuthStat = 14
)

var authStats = [...]string{
	AuthOK:           "AUTH_OK",
	AuthBadCred:      "AUTH_BADCRED",
	AuthRejectedCred: "AUTH_REJECTEDCRED",
	AuthBadVerf:      "AUTH_BADVERF",
	AuthRejectedVerf: "AUTH_REJECTEDVERF",
	AuthTooWeak:      "AUTH_TOOWEAK",
	AuthInvalidResp:  "AUTH_INVALIDRESP",
	AuthFailed:       "AUTH_FAILED",
	AuthKerbGeneric:  "AUTH_KERB_GENERIC",
	AuthTimeExpire:   "AUTH_TIMEEXPIRE",
	AuthTktFile:      "AUTH_TKT_FILE",
	AuthDecode:       "AUTH_DECODE",
	AuthNetAddr:      "AUTH_NET_ADDR",
	GSSCredProblem:   "RPCSEC_GSS_CREDPROBLEM",
	GSSCtxProblem:    "RPCSEC_GSS_CTXPROBLEM",
}

func (s AuthStat) String() string {
	if int64(s) < int64(len(authStats)) {
		return authStats[s]
	}
	return fmt.Sprintf("auth status %d", uint32(s))
}

func (s AuthStat) Error() string { return s.String() }

// Error says how a responder refused a call.
type Error struct {
	Stat Stat
	// Auth is valid if Stat is AuthError. A number that is not in the list
	// above is possible: new ones are assigned as mechanisms are added.
	Auth AuthStat
	// Low and High are the versions supported, both included, of the program
	// (ProgMismatch) or of RPC itself (RPCMismatch).
	Low, High uint32
}

func (e *Error) Error() string {
	switch e.Stat {
	case ProgMismatch, RPCMismatch:
		return fmt.Sprintf("rpc: call refused: %v, versions %d to %d are supported", e.Stat, e.Low, e.High)
	case AuthError:
		return fmt.Sprintf("rpc: call refused: %v, %v", e.Stat, e.Auth)
	}
	return fmt.Sprintf("rpc: call refused: %v", e.Stat)
}

// Is makes errors.Is find the Stat, and the AuthStat if it is an AuthError.
func (e *Error) Is(target error) bool {
	switch t := target.(type) {
	case Stat:
		return e.Stat == t
	case AuthStat:
		return e.Stat == AuthError && e.Auth == t
	}
	return false
}

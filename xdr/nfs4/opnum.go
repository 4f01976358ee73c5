package nfs4

import "strconv"

// OpNum is the number of an operation in a COMPOUND.
type OpNum uint32

// The operations of minor versions 1 and 2 (RFC 8881 section 18, RFC 7862
// section 15) and of extended attributes (RFC 8276 section 8.4).
// OpOpenConfirm, OpRenew, OpSetClientID, OpSetClientIDConfirm and
// OpReleaseLockOwner belong to minor version 0 and must not be used.
const (
	OpAccess             OpNum = 3
	OpClose              OpNum = 4
	OpCommit             OpNum = 5
	OpCreate             OpNum = 6
	OpDelegPurge         OpNum = 7
	OpDelegReturn        OpNum = 8
	OpGetAttr            OpNum = 9
	OpGetFH              OpNum = 10
	OpLink               OpNum = 11
	OpLock               OpNum = 12
	OpLockT              OpNum = 13
	OpLockU              OpNum = 14
	OpLookup             OpNum = 15
	OpLookupP            OpNum = 16
	OpNVerify            OpNum = 17
	OpOpen               OpNum = 18
	OpOpenAttr           OpNum = 19
	OpOpenConfirm        OpNum = 20
	OpOpenDowngrade      OpNum = 21
	OpPutFH              OpNum = 22
	OpPutPubFH           OpNum = 23
	OpPutRootFH          OpNum = 24
	OpRead               OpNum = 25
	OpReadDir            OpNum = 26
	OpReadLink           OpNum = 27
	OpRemove             OpNum = 28
	OpRename             OpNum = 29
	OpRenew              OpNum = 30
	OpRestoreFH          OpNum = 31
	OpSaveFH             OpNum = 32
	OpSecInfo            OpNum = 33
	OpSetAttr            OpNum = 34
	OpSetClientID        OpNum = 35
	OpSetClientIDConfirm OpNum = 36
	OpVerify             OpNum = 37
	OpWrite              OpNum = 38
	OpReleaseLockOwner   OpNum = 39
	OpBackchannelCtl     OpNum = 40
	OpBindConnToSession  OpNum = 41
	OpExchangeID         OpNum = 42
	OpCreateSession      OpNum = 43
	OpDestroySession     OpNum = 44
	OpFreeStateID        OpNum = 45
	OpGetDirDelegation   OpNum = 46
	OpGetDeviceInfo      OpNum = 47
	OpGetDeviceList      OpNum = 48
	OpLayoutCommit       OpNum = 49
	OpLayoutGet          OpNum = 50
	OpLayoutReturn       OpNum = 51
	OpSecInfoNoName      OpNum = 52
	OpSequence           OpNum = 53
	OpSetSSV             OpNum = 54
	OpTestStateID        OpNum = 55
	OpWantDelegation     OpNum = 56
	OpDestroyClientID    OpNum = 57
	OpReclaimComplete    OpNum = 58
	OpAllocate           OpNum = 59
	OpCopy               OpNum = 60
	OpCopyNotify         OpNum = 61
	OpDeallocate         OpNum = 62
	OpIOAdvise           OpNum = 63
	OpLayoutError        OpNum = 64
	OpLayoutStats        OpNum = 65
	OpOffloadCancel      OpNum = 66
	OpOffloadStatus      OpNum = 67
	OpReadPlus           OpNum = 68
	OpSeek               OpNum = 69
	OpWriteSame          OpNum = 70
	OpClone              OpNum = 71
	OpGetXattr           OpNum = 72
	OpSetXattr           OpNum = 73
	OpListXattrs         OpNum = 74
	OpRemoveXattr        OpNum = 75
	OpIllegal            OpNum = 10044
)

// CBOpNum is the number of an operation in a CB_COMPOUND.
type CBOpNum uint32

// The callback operations (RFC 8881 section 20, RFC 7862 section 16).
const (
	CBOpGetAttr            CBOpNum = 3
	CBOpRecall             CBOpNum = 4
	CBOpLayoutRecall       CBOpNum = 5
	CBOpNotify             CBOpNum = 6
	CBOpPushDeleg          CBOpNum = 7
	CBOpRecallAny          CBOpNum = 8
	CBOpRecallableObjAvail CBOpNum = 9
	CBOpRecallSlot         CBOpNum = 10
	CBOpSequence           CBOpNum = 11
	CBOpWantsCancelled     CBOpNum = 12
	CBOpNotifyLock         CBOpNum = 13
	CBOpNotifyDeviceID     CBOpNum = 14
	CBOpOffload            CBOpNum = 15
	CBOpIllegal            CBOpNum = 10044
)

// String returns the name that the RFCs use, without its prefix.
func (n OpNum) String() string {
	if s, ok := opNames[n]; ok {
		return s
	}
	return "OP_" + strconv.FormatUint(uint64(n), 10)
}

// String returns the name that the RFCs use, with its CB_ prefix.
func (n CBOpNum) String() string {
	if s, ok := cbOpNames[n]; ok {
		return s
	}
	return "CB_OP_" + strconv.FormatUint(uint64(n), 10)
}

var opNames = map[OpNum]string{
	OpAccess:             "ACCESS",
	OpClose:              "CLOSE",
	OpCommit:             "COMMIT",
	OpCreate:             "CREATE",
	OpDelegPurge:         "DELEGPURGE",
	OpDelegReturn:        "DELEGRETURN",
	OpGetAttr:            "GETATTR",
	OpGetFH:              "GETFH",
	OpLink:               "LINK",
	OpLock:               "LOCK",
	OpLockT:              "LOCKT",
	OpLockU:              "LOCKU",
	OpLookup:             "LOOKUP",
	OpLookupP:            "LOOKUPP",
	OpNVerify:            "NVERIFY",
	OpOpen:               "OPEN",
	OpOpenAttr:           "OPENATTR",
	OpOpenConfirm:        "OPEN_CONFIRM",
	OpOpenDowngrade:      "OPEN_DOWNGRADE",
	OpPutFH:              "PUTFH",
	OpPutPubFH:           "PUTPUBFH",
	OpPutRootFH:          "PUTROOTFH",
	OpRead:               "READ",
	OpReadDir:            "READDIR",
	OpReadLink:           "READLINK",
	OpRemove:             "REMOVE",
	OpRename:             "RENAME",
	OpRenew:              "RENEW",
	OpRestoreFH:          "RESTOREFH",
	OpSaveFH:             "SAVEFH",
	OpSecInfo:            "SECINFO",
	OpSetAttr:            "SETATTR",
	OpSetClientID:        "SETCLIENTID",
	OpSetClientIDConfirm: "SETCLIENTID_CONFIRM",
	OpVerify:             "VERIFY",
	OpWrite:              "WRITE",
	OpReleaseLockOwner:   "RELEASE_LOCKOWNER",
	OpBackchannelCtl:     "BACKCHANNEL_CTL",
	OpBindConnToSession:  "BIND_CONN_TO_SESSION",
	OpExchangeID:         "EXCHANGE_ID",
	OpCreateSession:      "CREATE_SESSION",
	OpDestroySession:     "DESTROY_SESSION",
	OpFreeStateID:        "FREE_STATEID",
	OpGetDirDelegation:   "GET_DIR_DELEGATION",
	OpGetDeviceInfo:      "GETDEVICEINFO",
	OpGetDeviceList:      "GETDEVICELIST",
	OpLayoutCommit:       "LAYOUTCOMMIT",
	OpLayoutGet:          "LAYOUTGET",
	OpLayoutReturn:       "LAYOUTRETURN",
	OpSecInfoNoName:      "SECINFO_NO_NAME",
	OpSequence:           "SEQUENCE",
	OpSetSSV:             "SET_SSV",
	OpTestStateID:        "TEST_STATEID",
	OpWantDelegation:     "WANT_DELEGATION",
	OpDestroyClientID:    "DESTROY_CLIENTID",
	OpReclaimComplete:    "RECLAIM_COMPLETE",
	OpAllocate:           "ALLOCATE",
	OpCopy:               "COPY",
	OpCopyNotify:         "COPY_NOTIFY",
	OpDeallocate:         "DEALLOCATE",
	OpIOAdvise:           "IO_ADVISE",
	OpLayoutError:        "LAYOUTERROR",
	OpLayoutStats:        "LAYOUTSTATS",
	OpOffloadCancel:      "OFFLOAD_CANCEL",
	OpOffloadStatus:      "OFFLOAD_STATUS",
	OpReadPlus:           "READ_PLUS",
	OpSeek:               "SEEK",
	OpWriteSame:          "WRITE_SAME",
	OpClone:              "CLONE",
	OpGetXattr:           "GETXATTR",
	OpSetXattr:           "SETXATTR",
	OpListXattrs:         "LISTXATTRS",
	OpRemoveXattr:        "REMOVEXATTR",
	OpIllegal:            "ILLEGAL",
}

var cbOpNames = map[CBOpNum]string{
	CBOpGetAttr:            "CB_GETATTR",
	CBOpRecall:             "CB_RECALL",
	CBOpLayoutRecall:       "CB_LAYOUTRECALL",
	CBOpNotify:             "CB_NOTIFY",
	CBOpPushDeleg:          "CB_PUSH_DELEG",
	CBOpRecallAny:          "CB_RECALL_ANY",
	CBOpRecallableObjAvail: "CB_RECALLABLE_OBJ_AVAIL",
	CBOpRecallSlot:         "CB_RECALL_SLOT",
	CBOpSequence:           "CB_SEQUENCE",
	CBOpWantsCancelled:     "CB_WANTS_CANCELLED",
	CBOpNotifyLock:         "CB_NOTIFY_LOCK",
	CBOpNotifyDeviceID:     "CB_NOTIFY_DEVICEID",
	CBOpOffload:            "CB_OFFLOAD",
	CBOpIllegal:            "CB_ILLEGAL",
}

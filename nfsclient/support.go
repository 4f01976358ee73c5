package nfsclient

import (
	"context"
	"sync"

	"nfsrdma-fuse/xdr/nfs4"
)

// Feature is something that not every server offers, or not on every file
// system.
type Feature uint8

// The features. Those up to FeatureXattrs need minor version 2.
const (
	FeatureAllocate   Feature = iota // File.Allocate
	FeatureDeallocate                // File.Deallocate, File.ZeroRange
	FeatureSeek                      // File.Seek
	FeatureCopy                      // File.CopyFrom
	FeatureClone                     // used by File.CopyFrom
	FeatureXattrs                    // GetXattr and the like
	FeatureACL                       // GetACL, SetACL
	FeatureLabel                     // GetLabel, SetLabel
	numFeatures
)

// Object is what an operation that depends on a Feature is done to: features
// belong to file systems, and the file system is told by its FSID.
type Object struct {
	FH   FH
	FSID nfs4.FSID
}

// featureSet has a bit for every Feature.
type featureSet uint16

func (s featureSet) has(f Feature) bool { return s&(1<<f) != 0 }

// allFeatures, and those that only minor version 2 has.
const (
	allFeatures  featureSet = 1<<numFeatures - 1
	features42              = allFeatures &^ (1<<FeatureACL | 1<<FeatureLabel)
	probedByAttr            = featureSet(1<<FeatureXattrs | 1<<FeatureACL | 1<<FeatureLabel)
)

// features remembers what the server has said about features, so that it is
// asked once:
//
//	unknown --operation done, attribute read-------> offered
//	   |
//	   +--NFS4ERR_NOTSUPP, or attributes say so----> refused on this file system
//	   +--NFS4ERR_OP_ILLEGAL, minor version 1------> refused on all of them
//
// Nothing leads back: who upgrades the server mounts it again.
type features struct {
	mu      sync.Mutex
	never   featureSet // on no file system of this server
	refused map[nfs4.FSID]featureSet
	probed  map[nfs4.FSID]bool // whose attributes have been looked at
}

// maxFeatureFS bounds the number of file systems remembered; beyond it they are
// asked anew.
const maxFeatureFS = 1024

// offers tells whether a feature may be used on a file system, as far as is
// known.
func (s *features) offers(fsid nfs4.FSID, f Feature) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !(s.never | s.refused[fsid]).has(f)
}

// refuse notes features that a file system does not have.
func (s *features) refuse(fsid nfs4.FSID, set featureSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused == nil || len(s.refused) >= maxFeatureFS {
		s.refused = make(map[nfs4.FSID]featureSet)
		s.probed = make(map[nfs4.FSID]bool)
	}
	s.refused[fsid] |= set
}

// answered takes the status with which an operation of a feature has ended. It
// tells whether the status means that the feature is not offered.
func (s *features) answered(fsid nfs4.FSID, f Feature, status nfs4.Status) (refused bool) {
	switch status {
	case nfs4.ErrNotSupp:
		s.refuse(fsid, 1<<f)
	case nfs4.ErrOpIllegal:
		s.mu.Lock()
		s.never |= 1 << f
		s.mu.Unlock()
	default:
		return false
	}
	return true
}

// Never tells whether no file system of this server can have a feature, now that
// the server has been asked. While it has not, the answer is false.
func (c *Client) Never(f Feature) bool {
	if c.minor.Load() < 2 && features42.has(f) {
		return true
	}
	c.features.mu.Lock()
	defer c.features.mu.Unlock()
	return c.features.never.has(f)
}

// need returns an error if a feature is known not to be there.
func (c *Client) need(op nfs4.OpNum, fsid nfs4.FSID, f Feature) error {
	if c.minor.Load() < 2 && features42.has(f) || !c.features.offers(fsid, f) {
		return opError(op, nfs4.ErrNotSupp)
	}
	return nil
}

// Supports tells whether the file system of an object has extended attributes,
// ACLs or security labels: the features that attributes tell of. The server is
// asked once for every file system.
func (c *Client) Supports(ctx context.Context, cred Cred, o Object, f Feature) (bool, error) {
	if c.Never(f) {
		return false, nil
	}
	s := &c.features
	s.mu.Lock()
	known := s.probed[o.FSID]
	s.mu.Unlock()
	if !known && probedByAttr.has(f) {
		if err := c.probe(ctx, cred, o); err != nil {
			return false, err
		}
	}
	return s.offers(o.FSID, f), nil
}

// probe looks at the attributes of a file system that tell of features.
func (c *Client) probe(ctx context.Context, cred Cred, o Object) error {
	mask := nfs4.MakeBitmap(nfs4.AttrSupportedAttrs, nfs4.AttrACLSupport)
	if c.minor.Load() >= 2 {
		mask.Set(nfs4.AttrXattrSupport)
	}
	a, err := c.getAttr(ctx, c.creds.get(cred), o.FH, mask)
	if err != nil {
		return err
	}
	var no featureSet
	sup := a.SupportedAttrs
	// A file system that says nothing of the kinds of entry it takes has them
	// all the same.
	if !sup.Has(nfs4.AttrACL) || a.Has(nfs4.AttrACLSupport) && a.ACLSupport == 0 {
		no |= 1 << FeatureACL
	}
	if !sup.Has(nfs4.AttrSecLabel) {
		no |= 1 << FeatureLabel
	}
	if !a.Has(nfs4.AttrXattrSupport) || !a.XattrSupport {
		no |= 1 << FeatureXattrs
	}
	s := &c.features
	s.refuse(o.FSID, no)
	s.mu.Lock()
	s.probed[o.FSID] = true
	s.mu.Unlock()
	return nil
}

// supported is Supports as an error.
func (c *Client) supported(ctx context.Context, cred Cred, op nfs4.OpNum, o Object, f Feature) error {
	ok, err := c.Supports(ctx, cred, o, f)
	if err == nil && !ok {
		err = opError(op, nfs4.ErrNotSupp)
	}
	return err
}

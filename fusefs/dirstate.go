package fusefs

import (
	"maps"
	"slices"

	"nfsrdma-fuse/xdr/nfs4"
)

// dirState tells whether what is known of a directory's names is still so: which
// change attribute they belong to, and which names are known not to exist. It
// is a machine without I/O, guarded by node.mu.
//
// An own change of a directory comes back with the change attribute before and
// after it (RFC 8881 section 3.3.8). As long as these join on to what is known,
// nobody else has changed the directory:
//
//	           own change from c to d             own change from d to e
//	known: c ------------------------> known: d ------------------------> ...
//	    |
//	    | attributes with another change, or an own change that does not join on
//	    +--------------------------------> foreign: all names are doubtful
//
// Answers may come in another order than the server worked in, so what does
// not join on is judged when no own change is on its way any more. Servers that
// cannot say that before and after enclose their own change only are believed all
// the same: otherwise no name could be remembered there from one own change
// to the next. What slips through is found when the names run out.
type dirState struct {
	change  uint64
	known   bool
	running int               // own changes on their way
	apart   map[uint64]uint64 // own changes that do not join on yet, before -> after
	ahead   uint64            // a change attribute that was seen and not reached yet
	isAhead bool

	after *nfs4.Attrs // that came with the last own change; may be nil

	missing map[string]struct{} // names that are known not to exist
	epoch   uint64              // counts the times that names became doubtful
}

const (
	// maxApart bounds dirState.apart. VFS lets one change of a directory
	// through at a time, so there are hardly ever any.
	maxApart = 64
	// maxMissing bounds the missing names remembered of one directory.
	maxMissing = 1024
)

// begin says that an own change is going out.
func (d *dirState) begin() { d.running++ }

// end says that an own change has been answered, its change information
// included. If names became doubtful it returns true.
func (d *dirState) end() (foreign bool) {
	d.running--
	if d.running > 0 || len(d.apart) == 0 && !d.isAhead {
		return false
	}
	d.known = false // until attributes come that nothing else can have overtaken
	return d.doubt()
}

// changed takes the change information of an own change.
func (d *dirState) changed(ci nfs4.ChangeInfo) (foreign bool) {
	switch {
	case ci.Before == ci.After:
		return false
	case !d.known:
		d.change, d.known = ci.After, true
		return false
	case ci.Before == d.change:
		d.join(ci.After)
		return false
	case d.running > 1 && len(d.apart) < maxApart:
		if d.apart == nil {
			d.apart = make(map[uint64]uint64)
		}
		d.apart[ci.Before] = ci.After
		return false
	}
	d.change = ci.After
	return d.doubt()
}

// takeAfter returns the attributes that came with an own change, if they are the
// directory's present ones as far as is known.
func (d *dirState) takeAfter() *nfs4.Attrs {
	a := d.after
	if d.running > 0 || a == nil {
		return nil
	}
	d.after = nil
	if !d.known || !a.Has(nfs4.AttrChange) || a.Change != d.change {
		return nil
	}
	return a
}

func (d *dirState) join(change uint64) {
	for {
		d.change = change
		if d.isAhead && d.ahead == change {
			d.isAhead = false
		}
		next, ok := d.apart[change]
		if !ok {
			return
		}
		delete(d.apart, change)
		change = next
	}
}

// observe takes the change attribute that came with attributes which are not
// older than the last own change answered.
func (d *dirState) observe(change uint64) (foreign bool) {
	switch {
	case !d.known:
		d.change, d.known = change, true
		return false
	case change == d.change:
		return false
	case d.running > 0:
		d.ahead, d.isAhead = change, true
		return false
	}
	d.change = change
	return d.doubt()
}

func (d *dirState) doubt() bool {
	d.epoch++
	d.isAhead = false
	clear(d.apart)
	return true
}

// miss remembers that a name does not exist, as was found out in an epoch. It
// returns false if it cannot be remembered.
func (d *dirState) miss(name string, epoch uint64) bool {
	if !d.known || epoch != d.epoch || len(d.missing) >= maxMissing {
		return false
	}
	if d.missing == nil {
		d.missing = make(map[string]struct{})
	}
	d.missing[name] = struct{}{}
	return true
}

// appear forgets that a name does not exist.
func (d *dirState) appear(name string) { delete(d.missing, name) }

// isMissing tells whether a name is known not to exist.
func (d *dirState) isMissing(name string) bool {
	_, ok := d.missing[name]
	return ok
}

// takeMissing forgets all missing names and returns them.
func (d *dirState) takeMissing() []string {
	names := slices.Collect(maps.Keys(d.missing))
	d.missing = nil
	return names
}

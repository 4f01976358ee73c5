package memfs

import (
	"sort"
)

// directory holds the entries of a directory by name and in the order in which
// they were made. An entry's cookie never changes and is never used again, so
// that a listing goes on behind a cookie whatever has happened in between:
// entries that stay are met exactly once.
//
// Removed entries leave a gap in the order, which is closed when gaps prevail.
type directory struct {
	byName map[string]*entry
	order  []*entry // ascending cookies; removed ones have a nil inode
	live   int      // entries in byName
	next   uint64   // cookie of the next entry
	nsub   int      // entries that are directories
}

type entry struct {
	name   string
	cookie uint64
	inode  *Inode
}

// FirstCookie is the smallest cookie of an entry. Protocols have a use of
// their own for smaller ones.
const FirstCookie = 3

func newDirectory() *directory {
	return &directory{byName: make(map[string]*entry), next: FirstCookie}
}

func (d *directory) get(name string) *Inode {
	if e := d.byName[name]; e != nil {
		return e.inode
	}
	return nil
}

// add makes an entry; the name must be free.
func (d *directory) add(name string, n *Inode) {
	e := &entry{name: name, cookie: d.next, inode: n}
	d.next++
	d.byName[name] = e
	d.order = append(d.order, e)
	d.live++
	if n.kind == Directory {
		d.nsub++
	}
}

// replace makes an existing entry lead to n; it keeps its cookie.
func (d *directory) replace(name string, n *Inode) {
	e := d.byName[name]
	if e.inode.kind == Directory {
		d.nsub--
	}
	if n.kind == Directory {
		d.nsub++
	}
	e.inode = n
}

func (d *directory) remove(name string) {
	e := d.byName[name]
	if e.inode.kind == Directory {
		d.nsub--
	}
	e.inode = nil
	delete(d.byName, name)
	d.live--
	if gaps := len(d.order) - d.live; gaps > 64 && gaps > d.live {
		kept := make([]*entry, 0, d.live+d.live/4+8)
		for _, e := range d.order {
			if e.inode != nil {
				kept = append(kept, e)
			}
		}
		d.order = kept
	}
}

// after calls fn for the entries behind cookie, in order, until it returns
// false, and tells whether it has come to the end.
func (d *directory) after(cookie uint64, fn func(*entry) bool) (end bool) {
	i := sort.Search(len(d.order), func(i int) bool { return d.order[i].cookie > cookie })
	for ; i < len(d.order); i++ {
		if e := d.order[i]; e.inode != nil && !fn(e) {
			return false
		}
	}
	return true
}

# Everything a developer calls. `make demo` and `make test` do their own set-up
# on Debian and Ubuntu; what cannot be installed is named in one line.

SHELL    := /bin/bash
GO       ?= go
# Seconds that each fuzz target runs; raise it for a longer hunt.
FUZZTIME ?= 2s
# What `make test` hands to `go test`, e.g. TESTFLAGS='-run TestMount -v'.
TESTFLAGS ?=
PREFIX   ?= /usr/local
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -X main.version=$(VERSION)

.PHONY: build demo test race fuzz lint lab lab-verbs bench install uninstall clean

build:
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/nfsrdma-fuse .
	ln -sf nfsrdma-fuse bin/mount.nfsrdma-fuse

demo:
	@scripts/setup demo
	@$(MAKE) --no-print-directory build
	@bin/nfsrdma-fuse demo

# Unit, mount and hostile-peer tests under the race detector, then a short run
# of every fuzz target.
test:
	@scripts/setup test
	scripts/leakcheck $(GO) test -race -timeout 280s $(TESTFLAGS) ./...
	@scripts/fuzz $(FUZZTIME)

fuzz:
	@scripts/fuzz $(FUZZTIME)

lint:
	@scripts/setup lint
	scripts/lint

# Real servers: knfsd over siw in a virtual machine, Ganesha over TCP.
lab:
	@scripts/setup lab
	@mkdir -p out; rm -f out/lab.txt
	@scripts/leakcheck env NFSRDMA_LAB_TABLE=$(CURDIR)/out/lab.txt \
		$(GO) test -tags lab -count 1 -p 1 -timeout 40m $(TESTFLAGS) ./scripts/lab/...; \
		status=$$?; [ ! -r out/lab.txt ] || cat out/lab.txt; exit $$status

# The verbs transport over rxe and siw inside the virtual machine at length:
# some twenty minutes.
lab-verbs:
	@scripts/setup lab
	scripts/leakcheck $(GO) test -tags lab,verbs -count 1 -timeout 40m -p 1 -run TestVerbs $(TESTFLAGS) ./scripts/lab/...

bench:
	$(GO) test -run '^$$' -bench . -benchmem $(TESTFLAGS) ./...

install: build
	install -D -m 755 bin/nfsrdma-fuse $(DESTDIR)$(PREFIX)/bin/nfsrdma-fuse
	install -d $(DESTDIR)/sbin
	ln -sf $(PREFIX)/bin/nfsrdma-fuse $(DESTDIR)/sbin/mount.nfsrdma-fuse
	install -D -m 644 docs/mount.nfsrdma-fuse.8 $(DESTDIR)$(PREFIX)/share/man/man8/mount.nfsrdma-fuse.8

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/nfsrdma-fuse $(DESTDIR)/sbin/mount.nfsrdma-fuse \
		$(DESTDIR)$(PREFIX)/share/man/man8/mount.nfsrdma-fuse.8

clean:
	rm -rf bin out

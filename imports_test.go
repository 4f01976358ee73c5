package main

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// module is the path that all packages of the project begin with.
const module = "nfsrdma-fuse"

// importRules say what a package may import from the project, and which
// libraries it may use besides the standard one. Imports point one way: from
// the command down to the streams. Test files are not held to the rules.
var importRules = map[string]struct{ project, libraries []string }{
	"": {
		project:   []string{"fusefs", "nfsclient", "nfsclient/tcp", "nfsclient/nfstest", "rdma", "rdma/iwarp", "rdma/verbs", "ulb", "xdr/nfs4"},
		libraries: []string{"github.com/urfave/cli/v2", "github.com/sirupsen/logrus", "golang.org/x/sys"},
	},
	"fusefs": {
		project:   []string{"nfsclient", "ulb", "xdr/nfs4"},
		libraries: []string{"github.com/hanwen/go-fuse/v2", "github.com/sirupsen/logrus", "golang.org/x/sys"},
	},
	"fusefs/conformance": {
		libraries: []string{"golang.org/x/sys", "pgregory.net/rapid"},
	},
	"nfsclient": {
		project:   []string{"ulb", "xdr", "xdr/rpc", "xdr/nfs4"},
		libraries: []string{"github.com/sirupsen/logrus", "golang.org/x/sys"},
	},
	"nfsclient/tcp": {
		project:   []string{"ulb", "xdr", "xdr/rpc"},
		libraries: []string{"golang.org/x/sys"},
	},
	"nfsclient/nfstest": {
		project: []string{"nfsclient/nfstest/memfs", "nfsclient/tcp", "rdma", "rdma/iwarp", "ulb", "xdr", "xdr/rpc", "xdr/nfs4"},
	},
	"nfsclient/nfstest/memfs": {},
	"rdma": {
		project: []string{"ulb", "xdr", "xdr/rpc", "xdr/rpcrdma"},
	},
	"rdma/rdmatest": {
		project: []string{"rdma", "ulb", "xdr", "xdr/rpcrdma"},
	},
	"rdma/iwarp": {
		project:   []string{"rdma", "ulb"},
		libraries: []string{"golang.org/x/sys"},
	},
	"rdma/verbs": {
		project:   []string{"rdma", "ulb"},
		libraries: []string{"golang.org/x/sys"},
	},
	"rdma/iwarp/iwarptest": {
		project: []string{"rdma", "rdma/iwarp", "ulb", "xdr", "xdr/rpcrdma"},
	},
	"ulb": {
		project:   []string{"xdr", "xdr/rpc", "xdr/rpcrdma", "xdr/nfs4"},
		libraries: []string{"golang.org/x/sys"},
	},
	"xdr/nfs4":    {project: []string{"xdr"}},
	"xdr/rpc":     {project: []string{"xdr"}},
	"xdr/rpcrdma": {project: []string{"xdr"}},
	"xdr":         {},
	// The lab is a test harness around the finished programs.
	"scripts/lab": {libraries: []string{"golang.org/x/sys"}},
}

// TestImports holds every package to the rules.
func TestImports(t *testing.T) {
	type listed struct {
		ImportPath string
		Imports    []string
		GoFiles    []string
		CgoFiles   []string
	}
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles,CgoFiles", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles)+len(p.CgoFiles) == 0 {
			continue // tests only
		}
		seen++
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		rule, ok := importRules[name]
		if !ok && strings.HasPrefix(name, "scripts/lab/") {
			rule, ok = importRules["scripts/lab"], true
			rule.project = append(rule.project, "scripts/lab")
		}
		if !ok {
			t.Errorf("package %s has no import rule: give it its place in importRules and in docs/architecture.md", p.ImportPath)
			continue
		}
		if len(p.CgoFiles) > 0 && name != "rdma/verbs" {
			t.Errorf("%s uses cgo (%v): only rdma/verbs may", p.ImportPath, p.CgoFiles)
		}
		for _, imp := range p.Imports {
			if inner, ok := strings.CutPrefix(imp, module+"/"); ok {
				if !slices.Contains(rule.project, inner) {
					t.Errorf("%s imports %s, which its rule does not allow", p.ImportPath, imp)
				}
				continue
			}
			if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
				continue // standard library
			}
			if !slices.ContainsFunc(rule.libraries, func(l string) bool { return imp == l || strings.HasPrefix(imp, l+"/") }) {
				t.Errorf("%s imports %s, which its rule does not allow", p.ImportPath, imp)
			}
		}
	}
	if seen < 5 {
		t.Fatalf("go list named only %d packages", seen)
	}
}

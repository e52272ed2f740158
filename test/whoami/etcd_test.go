package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// fakeEtcd answers as a member of etcd, and records the changes. It refuses so many requests first.
type fakeEtcd struct {
	members []etcdMember
	changes []string
	refuses int
	forgets bool // members that are added
}

func (f *fakeEtcd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.refuses > 0 {
		f.refuses--
		http.Error(w, "etcdserver: unhealthy cluster", http.StatusServiceUnavailable)
		return
	}
	var change etcdChange
	if err := json.NewDecoder(r.Body).Decode(&change); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch method := strings.TrimPrefix(r.URL.Path, "/v3/cluster/member/"); method {
	case "list":
		if !change.Linearizable {
			http.Error(w, "the list may be old", http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"members": f.members})
	case "remove":
		f.changes = append(f.changes, "remove "+change.ID)
		f.members = slices.DeleteFunc(f.members, func(m etcdMember) bool { return m.ID == change.ID })
		fmt.Fprint(w, "{}")
	case "add":
		f.changes = append(f.changes, "add "+change.PeerURLs[0])
		added := etcdMember{ID: fmt.Sprint(100 + len(f.changes)), PeerURLs: change.PeerURLs}
		if !f.forgets {
			f.members = append(f.members, added)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"member": added})
	}
}

func (f *fakeEtcd) listen(t *testing.T) (client string) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server.URL
}

// joinArgs names the cluster of two members. The URL of db-0 leads nowhere: the member asks the other one alone.
func joinArgs(t *testing.T, other string) []string {
	t.Helper()
	return []string{
		"etcd-join", "--every", "1ms", "--data", t.TempDir(), "--peer", "http://db-0.db:2380",
		"http://db-0.db:2379", other,
	}
}

func TestAPodWithoutDataIsANewMemberOfEtcd(t *testing.T) {
	other := etcdMember{ID: "2", PeerURLs: []string{"http://db-1.db:2380"}}
	old := etcdMember{ID: "1", PeerURLs: []string{"http://db-0.db:2380"}}
	for name, test := range map[string]struct {
		etcd fakeEtcd
		want []string
	}{
		"the old member is removed": {
			fakeEtcd{members: []etcdMember{old, other}}, []string{"remove 1", "add http://db-0.db:2380"},
		},
		"without an old member": {fakeEtcd{members: []etcdMember{other}}, []string{"add http://db-0.db:2380"}},
		"after refusals": {
			fakeEtcd{members: []etcdMember{old, other}, refuses: 3}, []string{"remove 1", "add http://db-0.db:2380"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, out, _ := newProcess()
			refused := test.etcd.refuses
			if err := p.run(t.Context(), joinArgs(t, test.etcd.listen(t))); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(test.etcd.changes, test.want) {
				t.Errorf("changed %q, want %q", test.etcd.changes, test.want)
			}
			if got := strings.Count(out.String(), "unhealthy cluster"); got != refused {
				t.Errorf("%d refusals in the log, want %d:\n%s", got, refused, out)
			}
		})
	}
}

func TestAMemberOfEtcdWithDataStaysTheSame(t *testing.T) {
	p, _, _ := newProcess()
	etcd := &fakeEtcd{}
	args := joinArgs(t, etcd.listen(t))
	if err := os.Mkdir(filepath.Join(args[4], "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := p.run(t.Context(), args); err != nil || len(etcd.changes) > 0 {
		t.Errorf("changed %q, %v", etcd.changes, err)
	}
}

func TestAMemberOfEtcdWaitsUntilTheOthersKnowIt(t *testing.T) {
	p, _, term := newProcess()
	term <- syscall.SIGTERM
	etcd := &fakeEtcd{forgets: true}
	err := p.run(t.Context(), joinArgs(t, etcd.listen(t)))
	if err == nil || !strings.Contains(err.Error(), "does not know the member 101") {
		t.Errorf("error is %v", err)
	}
}

func TestWrongCommandLinesOfEtcdJoinFail(t *testing.T) {
	const peer, other = "http://db-0.db:2380", "http://db-1.db:2379"
	for name, args := range map[string][]string{
		"without a peer URL":       {"etcd-join", "--data", "/data", other},
		"without data":             {"etcd-join", "--peer", peer, other},
		"without others":           {"etcd-join", "--data", "/data", "--peer", peer, "http://db-0.db:2379"},
		"a client URL without one": {"etcd-join", "--data", "/data", "--peer", peer, "db-1"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _, _ := newProcess()
			if err := p.run(t.Context(), args); err == nil || !strings.Contains(err.Error(), errUsage.Error()) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	stat := func(start, threads string) string {
		return start + " 1 7 7 0 -1 4194560 111 0 0 0 1 0 0 0 20 0 " + threads + " 0 4711 2600000 300"
	}
	for name, c := range map[string]struct {
		stat  string
		ended bool
	}{
		"a process":                              {stat: stat("7 (etcd) S", "9")},
		"a name with blanks and brackets":        {stat: stat("7 (a b) S) R", "1")},
		"a process that nobody has waited for":   {stat: stat("7 (etcd) Z", "1"), ended: true},
		"a process that becomes another program": {stat: stat("7 (clusters) Z", "2")},
		"a dead process":                         {stat: stat("7 (etcd) X", "0"), ended: true},
		"an empty file":                          {ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			started, err := parseStat(c.stat)
			if (err != nil) != c.ended {
				t.Fatalf("error %v", err)
			}
			if !c.ended && started != 4711 {
				t.Errorf("started at %d, want 4711", started)
			}
		})
	}
}

func TestRecordSurvivesItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.json")
	if found, err := Read(path); err != nil || found != (Record{}) {
		t.Fatalf("without a file: %v, %v", found, err)
	}
	want := Record{PID: 12, Started: 34, Command: "ab"}
	if err := want.write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

// start starts the program sleep, and reaps it when it ends.
func start(t *testing.T) Record {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started, err := startOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	return Record{PID: cmd.Process.Pid, Started: started}
}

func TestStopEndsTheProcessOfTheRecord(t *testing.T) {
	for name, grace := range map[string]time.Duration{"with a grace": time.Minute, "at once": 0} {
		t.Run(name, func(t *testing.T) {
			record := start(t)
			if !record.Alive() {
				t.Fatal("the process is not alive before it is stopped")
			}
			if err := record.Stop(t.Context(), grace); err != nil {
				t.Fatal(err)
			}
			if record.Alive() {
				t.Error("the process is alive after it was stopped")
			}
		})
	}
}

func TestStopSparesAnotherProcessWithTheSameID(t *testing.T) {
	record := start(t)
	former := Record{PID: record.PID, Started: record.Started - 1}
	if former.Alive() {
		t.Fatal("a process that started at another time is taken for that of the record")
	}
	if err := former.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if !record.Alive() {
		t.Error("another process with the same ID was killed")
	}
}

func TestFingerprintFollowsArgumentsAndConfiguration(t *testing.T) {
	one := Command{Args: []string{"etcd", "--a"}, Config: "x"}
	for name, other := range map[string]Command{
		"other arguments":     {Args: []string{"etcd", "--b"}, Config: "x"},
		"other configuration": {Args: []string{"etcd", "--a"}, Config: "y"},
	} {
		t.Run(name, func(t *testing.T) {
			if one.Fingerprint() == other.Fingerprint() {
				t.Error("the fingerprint is the same")
			}
		})
	}
}

func TestTrampolineRefusesTooFewArguments(t *testing.T) {
	if err := Trampoline([]string{"", "", "", "", ""}); err == nil {
		t.Error("a trampoline without a command was accepted")
	}
}

func TestSelfIsAlive(t *testing.T) {
	started, err := startOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !(Record{PID: os.Getpid(), Started: started}).Alive() {
		t.Error("this process is not alive")
	}
}

package cgroup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMounts(t *testing.T) {
	const other = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
	for name, c := range map[string]struct {
		mountinfo string
		want      Hierarchies
		unified   bool
	}{
		"version 1 beside an empty version 2": {
			mountinfo: other +
				"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup none rw,memory\n" +
				"36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup none rw,cpu,cpuacct\n" +
				"40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup systemd rw,xattr,release_agent=/x,name=systemd\n" +
				"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 none rw\n",
			want: Hierarchies{
				V1: map[string]string{
					"memory":       "/sys/fs/cgroup/memory",
					"cpu,cpuacct":  "/sys/fs/cgroup/cpu",
					"name=systemd": "/sys/fs/cgroup/systemd",
				},
				V2: "/sys/fs/cgroup/unified",
			},
		},
		"version 2": {
			mountinfo: other + "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 none rw,nsdelegate\n",
			want:      Hierarchies{V1: map[string]string{}, V2: "/sys/fs/cgroup"},
			unified:   true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseMounts(strings.NewReader(c.mountinfo))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("hierarchies (-want +got):\n%s", diff)
			}
			if got.Unified() != c.unified {
				t.Errorf("unified %t, want %t", got.Unified(), c.unified)
			}
		})
	}
}

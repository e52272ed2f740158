package claims

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

// answers says of each engaged target how it answers, by its key.
type answers map[types.NamespacedName]struct {
	clusterID string
	answer    keeping
}

func c2key() types.NamespacedName { return types.NamespacedName{Name: "c2"} }

func TestClaimsAskAllowedTargetsOnly(t *testing.T) {
	c3, stranger := types.NamespacedName{Name: "c3"}, types.NamespacedName{Namespace: "evil", Name: "c2"}
	copied := &claim{uid: "1", followedTo: location{targetkind.Name(c2key()), "id-of-c2"}}
	for name, test := range map[string]struct {
		targets answers
		there   *claim // in the target in question
		in      types.NamespacedName
		want    keeping
		exists  bool // whether there is a target of the name, connected or not
	}{
		"the target with the copy keeps it": {
			answers{c2key(): {"id-of-c2", kept}, c3: {"id-of-c3", free}}, nil, c3, kept, true,
		},
		"the target with the copy is not kept from itself": {
			answers{c2key(): {"id-of-c2", kept}}, nil, c2key(), free, true,
		},
		"a target of another namespace is not asked, whatever its cluster ID": {
			answers{c2key(): {"id-of-c2", silent}, stranger: {"id-of-c2", free}, c3: {"id-of-c3", free}}, nil, c3,
			silent, true,
		},
		"a target of another namespace is not asked, if it is the only one": {
			answers{stranger: {"id-of-c2", free}, c3: {"id-of-c3", free}}, nil, c3, silent, false,
		},
		"a target with the cluster ID of another one does not give up its copy": {
			answers{c2key(): {"id-of-c2", kept}, c3: {"id-of-c2", free}}, nil, c3, kept, true,
		},
		"not even while the other one does not answer": {
			answers{c2key(): {"id-of-c2", silent}, c3: {"id-of-c2", free}}, nil, c3, silent, true,
		},
		"nor while the other one is not connected": {
			answers{c3: {"id-of-c2", free}}, nil, c3, silent, true,
		},
		"a sibling has the same copy": {
			answers{c2key(): {"id-of-c2", silent}, c3: {"id-of-c2", kept}}, &claim{origin: ours, parent: "1"}, c3, free,
			true,
		},
		"a target that was renamed has its copy": {
			answers{c3: {"id-of-c2", kept}}, &claim{origin: ours, parent: "1"}, c3, free, false,
		},
		"a target with the ID of a target that was deleted does not give up the copy": {
			answers{c3: {"id-of-c2", free}}, nil, c3, unproven, false,
		},
		"nor if the name leads elsewhere": {
			answers{c2key(): {"id-of-c4", free}, c3: {"id-of-c2", free}}, nil, c3, unproven, true,
		},
		"a name that leads elsewhere now is of no help": {
			answers{c2key(): {"id-of-c4", free}, c3: {"id-of-c3", free}}, nil, c3, moved, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Claims{options: Options{Exists: func(context.Context, string) bool { return test.exists }}}
			var asked *cluster
			for key, target := range test.targets {
				one := &cluster{
					location: location{targetkind.Name(key), target.clusterID}, target: &engage.Target{Key: key},
				}
				c.targets.Set(t.Context(), one.target, one)
				if key == test.in {
					asked = one
				}
			}
			got, _ := c.keeping("shop", situation{original: copied, there: test.there}, asked,
				func(keeper *cluster) keeping {
					if !keeper.target.Allows("shop") {
						t.Errorf("%s was asked", keeper.name)
					}
					return test.targets[keeper.target.Key].answer
				})
			if got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

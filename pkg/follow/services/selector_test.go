package services

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestRewrite(t *testing.T) {
	type set = map[string]string
	ours := set{"multicluster.admiralty.io/app": "web", v1alpha1.LabelParentClusterID: "c1"}
	original := func(value string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Annotations[v1alpha1.AnnotationOriginalSelector] = value
			s.Annotations[v1alpha1.AnnotationGlobal] = "true"
		}
	}
	for name, test := range map[string]struct {
		service   *corev1.Service
		delegates bool
		want      *rewriting
	}{
		"the user's selector becomes that of the delegates": {
			service: web(), delegates: true, want: &rewriting{selector: ours, original: "app=web"},
		},
		"a rewritten selector stays while there are delegates": {
			service: web(selecting(ours), original("app=web")), delegates: true,
		},
		"a rewritten selector is put back without delegates": {
			service: web(selecting(ours), original("app=web")), want: &rewriting{selector: set{"app": "web"}},
		},
		"a selector that was not rewritten is not put back": {service: web()},
		"a selector that the old system rewrote gets the source's ID": {
			service:   web(selecting(set{"multicluster.admiralty.io/app": "web"}), original("app=web")),
			delegates: true, want: &rewriting{selector: ours, original: "app=web"},
		},
		"an original as JSON is understood": {
			service: web(selecting(ours), original(`{"app":"web"}`)), want: &rewriting{selector: set{"app": "web"}},
		},
		"a selector that somebody applied again is rewritten again": {
			service:   web(selecting(set{"multicluster.admiralty.io/app": "web", "app": "web"}), original("app=web")),
			delegates: true,
			want:      &rewriting{selector: ours, original: "app=web"},
		},
		"another selector of the user is the new original": {
			service: web(selecting(set{"app": "new"}), original("app=web")), delegates: true,
			want: &rewriting{
				selector: set{"multicluster.admiralty.io/app": "new", v1alpha1.LabelParentClusterID: "c1"},
				original: "app=new",
			},
		},
		"another selector of the user stays without delegates": {
			service: web(selecting(set{"app": "new"}), original("app=web")),
			want:    &rewriting{selector: set{"app": "new"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rewrite(test.service, test.delegates, translate.Source{ClusterID: "c1"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(rewriting{})); diff != "" {
				t.Errorf("rewriting (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := rewrite(web(original("app")), false, translate.Source{}); err == nil {
		t.Error("an original that is no selector is no error")
	}
}

package grants

import "testing"

func TestWhoseClusterIDIsPublished(t *testing.T) {
	for name, test := range map[string]struct {
		clusterSources, sources []string
		want                    string
		administrators          bool
	}{
		"nobody's":                               {nil, nil, "", false},
		"a ClusterSource's":                      {[]string{"c1"}, nil, "c1", true},
		"one of two ClusterSources'":             {[]string{"", "c1", "c1"}, nil, "c1", true},
		"none of two ClusterSources that differ": {[]string{"c1", "c2"}, nil, "", false},
		"a ClusterSource's, for whose user a tenant writes another": {
			[]string{"c1"}, []string{"evil"}, "c1", true,
		},
		"none, for a ClusterSource's user for whom a tenant writes one": {[]string{""}, []string{"evil"}, "", false},
		"none of ClusterSources that differ, with a tenant's choice": {
			[]string{"c1", "c2"}, []string{"c2"}, "", false,
		},
		"a Source's":                          {nil, []string{"c1"}, "c1", false},
		"that of Sources that agree":          {nil, []string{"c1", "c1"}, "c1", false},
		"none of Sources that differ":         {nil, []string{"c1", "evil"}, "", false},
		"none, where another Source has none": {nil, []string{"evil", ""}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			id, administrators := clusterIDOf(test.clusterSources, test.sources)
			if id != test.want || administrators != test.administrators {
				t.Errorf("%q, of administrators: %v", id, administrators)
			}
		})
	}
}

package patch

import "testing"

func TestAPatchIsEncodedAsAPIServersReadIt(t *testing.T) {
	data, err := Encode([]Operation{
		TestUID("u1"),
		Add(Pointer("metadata", "annotations", "multicluster.admiralty.io/elect"), ""),
		Add(Pointer("data"), nil),
		Remove(Pointer("metadata", "labels", "a~b")),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"op":"test","path":"/metadata/uid","value":"u1"},` +
		`{"op":"add","path":"/metadata/annotations/multicluster.admiralty.io~1elect","value":""},` +
		`{"op":"add","path":"/data","value":null},` +
		`{"op":"remove","path":"/metadata/labels/a~0b"}]`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
}

func TestAMergePatchHasTheUIDAsAPrecondition(t *testing.T) {
	for name, test := range map[string]struct {
		metadata, others map[string]any
		want             string
	}{
		"no change": {want: `{"metadata":{"uid":"u1"}}`},
		"a value that only JSON quotes well, and one that is removed": {
			metadata: map[string]any{"annotations": map[string]any{"a": "\a\x00", "b": nil}},
			want:     `{"metadata":{"annotations":{"a":"\u0007\u0000","b":null},"uid":"u1"}}`,
		},
		"a change of the spec": {
			others: map[string]any{"spec": map[string]any{"size": 1}},
			want:   `{"metadata":{"uid":"u1"},"spec":{"size":1}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := Merge("u1", test.metadata, test.others)
			if err != nil || string(data) != test.want {
				t.Errorf("got %s (%v), want %s", data, err, test.want)
			}
		})
	}
}

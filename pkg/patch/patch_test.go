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

package target

import "testing"

func TestTheEpochOfOneTargetIsNotThatOfAnother(t *testing.T) {
	e := knownEpoch{is: 7, of: "c2/a"}
	if e.forgetUnless("c2/a"); e != (knownEpoch{is: 7, of: "c2/a"}) {
		t.Errorf("the same target has %+v", e)
	}
	if e.forgetUnless("c3/a"); e != (knownEpoch{of: "c3/a"}) {
		t.Errorf("another target has %+v", e)
	}
}

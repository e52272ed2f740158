package engage

import (
	"strconv"
	"testing"
)

func TestTextsHaveDifferentActionsAndTheseAreFew(t *testing.T) {
	if EventAction("Follow", "quota") == EventAction("Follow", "policy") {
		t.Error("two texts have the same action")
	}
	if EventAction("Follow", "quota") == EventAction("Warn", "quota") {
		t.Error("two verbs have the same action")
	}
	actions := map[string]bool{}
	for i := range 1000 {
		actions[EventAction("Follow", strconv.Itoa(i))] = true
	}
	if len(actions) != kindsOfNotes {
		t.Errorf("1,000 texts have %d actions", len(actions))
	}
}

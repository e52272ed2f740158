package engage

import (
	"fmt"
	"hash/fnv"
	"time"
)

// SayAgainAfter is the least time between two events that say the same of a target: API servers keep events so long.
const SayAgainAfter = time.Hour

// kindsOfNotes is how many events of one verb, with different texts, are recorded beside one another.
const kindsOfNotes = 8

// EventAction returns the action of an event whose text comes from a target. Recorders of events count those of the
// same object, action and reason, and keep the first one's text. So the action tells texts apart. The number of actions
// of a verb is bounded, because the target chooses the texts.
func EventAction(verb, text string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(text))
	return fmt.Sprintf("%s%d", verb, hash.Sum32()%kindsOfNotes)
}

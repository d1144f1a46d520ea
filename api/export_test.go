package api

import "time"

// SetTimeouts sets how long a reader may take and after what time an idle one gets a sign of life. Before the first reader comes.
func (e *Events) SetTimeouts(send, keepAlive time.Duration) {
	e.sendTimeout, e.keepAlive = send, keepAlive
}

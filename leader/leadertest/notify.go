package leadertest

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Notify sends a notification to all that listen on the channel, as NOTIFY does.
func (s *Server) Notify(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notifyLocked(0, channel)
}

// notifyLocked queues the notification for each listener. One that has fallen far behind, for example behind a cut network,
// misses it: mu must not wait for a network.
func (s *Server) notifyLocked(sender uint32, channel string) {
	message := encode(&pgproto3.NotificationResponse{PID: sender, Channel: channel})
	for _, listener := range s.sessions {
		if slices.Contains(listener.channels, channel) {
			select {
			case listener.replies <- reply{wire: message, due: time.Now().Add(listener.client.network.currentDelay())}:
			default:
			}
		}
	}
}

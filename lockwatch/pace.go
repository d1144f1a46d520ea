package lockwatch

import "time"

// settled is how many polls in a row must agree until the log tells that the pace has changed: one slow poll is none.
const settled = 3

// pace says how often to poll, so that the server spends no more than MaxDutyCycle of its time in the statement. It belongs to
// whoever polls.
type pace struct {
	cfg   Config
	spent time.Duration // by the server, in the last answered poll, as far as that is known

	slow   bool // what the log says
	change int  // polls in a row that contradict it
}

// interval is the time from the start of the last poll to that of the next one.
func (p *pace) interval() time.Duration {
	return max(p.cfg.PollInterval, time.Duration(float64(p.spent)/p.cfg.MaxDutyCycle))
}

// note enters a poll that took so long, seen from here, and of which the server told so much; 0 means that it did not answer, which says
// nothing of the pace. What the server tells ends with the last row, before it frees what the statement has read: a twentieth more at 100
// thousand locks. The poll holds all of it, but also the network and, at times, a new connection.
func (p *pace) note(took, told time.Duration, d *diary) {
	if told <= 0 {
		return
	}
	p.spent = min(took, told+told/4)
	if slow := p.interval() > p.cfg.PollInterval; slow == p.slow {
		p.change = 0
		return
	}
	if p.change++; p.change < settled {
		return
	}
	p.slow, p.change = !p.slow, 0
	d.paced(p.slow, p.spent, p.interval())
}

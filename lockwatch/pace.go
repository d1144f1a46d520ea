package lockwatch

import "time"

// settled is how many polls in a row must agree until the log tells that the pace has changed: one slow poll is none.
const settled = 3

// pace says how often to poll, so that the server spends no more than MaxDutyCycle of its time in the statement. It belongs to
// whoever polls.
type pace struct {
	cfg   Config
	spent time.Duration // by the server, in the last answered poll

	slow   bool // what the log says
	change int  // polls in a row that contradict it
}

// interval is the time from the start of the last poll to that of the next one.
func (p *pace) interval() time.Duration {
	return max(p.cfg.PollInterval, time.Duration(float64(p.spent)/p.cfg.MaxDutyCycle))
}

// note enters how long the server took; 0 means that it did not answer, which says nothing of the pace.
func (p *pace) note(spent time.Duration, d *diary) {
	if spent <= 0 {
		return
	}
	p.spent = spent
	if slow := p.interval() > p.cfg.PollInterval; slow == p.slow {
		p.change = 0
		return
	}
	if p.change++; p.change < settled {
		return
	}
	p.slow, p.change = !p.slow, 0
	d.paced(p.slow, spent, p.interval())
}

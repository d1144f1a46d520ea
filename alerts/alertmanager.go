package alerts

import _ "embed" // of the example

//go:embed alertmanager.example.yml
var alertmanagerExample string

// AlertmanagerExample returns alertmanager.example.yml, an example of how Alertmanager may treat the alerts: routes, grouping, and which
// alert mutes which. Its receivers are placeholders. It may be called from any goroutine.
func AlertmanagerExample() string { return alertmanagerExample }

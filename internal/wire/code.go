package wire

// A Code says in one word what went wrong with a step. The list is closed (design, section 6).
type Code string

// The codes that an output's error may carry.
const (
	CodeAuthRequired      Code = "auth_required"
	CodeRateLimited       Code = "rate_limited"
	CodeQuotaExhausted    Code = "quota_exhausted"
	CodeBillingRequired   Code = "billing_required"
	CodeProviderError     Code = "provider_error"
	CodeCLINotFound       Code = "cli_not_found"
	CodeCLITooOld         Code = "cli_too_old"
	CodeCLISpawnFailed    Code = "cli_spawn_failed"
	CodeCLIStalled        Code = "cli_stalled"
	CodeEndpointDown      Code = "endpoint_unreachable"
	CodeEndpointCold      Code = "endpoint_cold"
	CodeEndpointStalled   Code = "endpoint_stalled"
	CodeStepTimeout       Code = "step_timeout"
	CodeCancelled         Code = "cancelled"
	CodeBusy              Code = "busy"
	CodePolicyDenied      Code = "policy_denied"
	CodeApprovalExpired   Code = "approval_expired"
	CodeToolError         Code = "tool_error"
	CodeInvalidInput      Code = "invalid_input"
	CodeResultTooLarge    Code = "result_too_large"
	CodeOutcomeUnknown    Code = "outcome_unknown"
	CodeCredentialMissing Code = "credential_missing"
	CodeCredentialLocked  Code = "credential_locked"
	CodeUnresolved        Code = "connection_provider_unresolved"
	CodeValidation        Code = "validation_error"
	CodeHostNotAllowed    Code = "host_not_allowed"
	CodeSSRFBlocked       Code = "ssrf_blocked"
	CodeFetchFailed       Code = "fetch_failed"
	CodeFrameTooLarge     Code = "frame_too_large"
)

// CodeRunnerUnavailable is the host's own: no runner could take the step, or the one that took it was lost (wire 14.7).
// It never comes from a runner.
const CodeRunnerUnavailable Code = "runner_unavailable"

// Known reports whether c is one of the codes that a runner may send.
func (c Code) Known() bool {
	switch c {
	case CodeAuthRequired, CodeRateLimited, CodeQuotaExhausted, CodeBillingRequired, CodeProviderError, CodeCLINotFound,
		CodeCLITooOld, CodeCLISpawnFailed, CodeCLIStalled, CodeEndpointDown, CodeEndpointCold, CodeEndpointStalled,
		CodeStepTimeout, CodeCancelled, CodeBusy, CodePolicyDenied, CodeApprovalExpired, CodeToolError, CodeInvalidInput,
		CodeResultTooLarge, CodeOutcomeUnknown, CodeCredentialMissing, CodeCredentialLocked, CodeUnresolved,
		CodeValidation, CodeHostNotAllowed, CodeSSRFBlocked, CodeFetchFailed, CodeFrameTooLarge:
		return true
	}
	return false
}

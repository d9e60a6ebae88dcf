import type { ApprovalView } from '@gantry/client'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { factsText } from '../table.ts'
import { safeJson } from '../terminal.ts'

/** Shows one call that waits for a person, with its arguments. */
export const execute: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const approval = await client.approvals.get(id, { signal: io.signal })
    if (options.json === true) await printJson(approval, io)
    else await io.out(approvalText(approval))
    return 0
  })

function approvalText(approval: ApprovalView): string {
  const { id, state, callId, innerId, tool, principal, reason, approvers, fingerprint, decided } = approval
  const asked = { approval: id, state, call: callId, step: innerId, tool, caller: principal, reason }
  const times = { asked: approval.askedAt, expires: approval.expiresAt }
  const who = { approvers: approvers.length === 0 ? undefined : approvers.join(', '), fingerprint }
  const why = decided?.why === undefined ? '' : `: ${decided.why}`
  const end = { decided: decided && `${decided.at} by ${decided.by}${why}` }
  const lines = factsText({ ...asked, ...times, ...who, ...end })
  if (approval.args !== undefined) return `${lines}${safeJson(approval.args, 2)}\n`
  return `${lines}The arguments are too long to show: ${approval.argsBytes} bytes.\n`
}

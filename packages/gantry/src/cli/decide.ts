import type { Command } from './io.ts'
import { printJson } from './print.ts'
import { withService } from './session.ts'
import { safeLine } from './terminal.ts'

/** Decides on a call that waits for a person. */
export function decide(
  decision: 'approve' | 'deny',
  { operands: [id = ''], options }: Parameters<Command>[0],
  io: Parameters<Command>[1],
): Promise<number> {
  return withService(options, io, async (client) => {
    const approval = await client.approvals[decision](id, { reason: options.reason, signal: io.signal })
    const [tool, callId] = [safeLine(approval.tool), safeLine(approval.callId)]
    const own = approval.decided?.as === undefined ? '' : ` (your own call, as ${approval.decided.as})`
    const done = decision === 'approve' ? `Approved${own}: ${tool} goes on` : `Denied${own}: ${tool} does not run`
    if (options.json === true) await printJson(approval, io)
    else await io.out(`${done}; gantry call ${callId} shows how it stands.\n`)
    return 0
  })
}

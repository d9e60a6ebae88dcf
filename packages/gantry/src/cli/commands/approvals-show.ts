import { approvalText } from '../approval-text.ts'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'

/** Shows one call that waits for a person, with its arguments. */
export const execute: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const approval = await client.approvals.get(id, { full: options.full, signal: io.signal })
    if (options.json === true) await printJson(approval, io)
    else await io.out(approvalText(approval))
    return 0
  })

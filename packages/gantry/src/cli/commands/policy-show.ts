import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { factsText } from '../table.ts'
import { safeJson } from '../terminal.ts'

/** Shows the policy that was set over the API, and the version that calls see. */
export const execute: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const view = await client.policy.read({ signal: io.signal })
    const { version, stored } = view
    if (options.json === true) await printJson(view, io)
    else if (stored === undefined) await io.out(`${factsText({ version })}Nothing was set besides the configuration.\n`)
    else {
      const set = `version ${stored.version}, ${stored.createdAt} by ${stored.createdBy}`
      await io.out(`${factsText({ version, set })}${safeJson(stored.document, 2)}\n`)
    }
    return 0
  })

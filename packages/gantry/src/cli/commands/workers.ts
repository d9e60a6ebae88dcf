import type { Command } from '../io.ts'
import { printJson, tableText } from '../print.ts'
import { withService } from '../session.ts'

/** Lists the processes of a service, by their last heartbeat. */
export const listWorkers: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const items = await client.workers({ signal: io.signal })
    if (options.json === true) await printJson({ items }, io)
    else {
      const rows = items.map((one) => [
        one.worker,
        one.state,
        one.roles.join(','),
        `${one.running}/${one.slots}`,
        one.startedAt,
        one.seenAt,
      ])
      await io.out(tableText(['worker', 'state', 'roles', 'running', 'started', 'seen'], rows, io))
    }
    return 0
  })

import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withExecutor } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Lists the backends and asks each whether it is there. */
export const execute: Command = ({ options }, io) =>
  withExecutor(options, io, async (gantry) => {
    const items = await gantry.backends.health({ signal: io.signal })
    if (options.json === true) await printJson({ items }, io)
    else {
      const width = Math.max(...items.map(({ key }) => key.length))
      const line = ({ key, status, message }: (typeof items)[number]): string =>
        safeLine(`${key.padEnd(width)}  ${status}${message === undefined ? '' : `  ${message}`}`)
      await io.out(`${items.map(line).join('\n')}\n`)
    }
    return 0
  })

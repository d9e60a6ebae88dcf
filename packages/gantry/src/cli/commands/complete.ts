import type { Command } from '../io.ts'
import { withExecutor } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Ids of tools, one per line; a shell that completes wants silence, not errors. */
export const execute: Command = async ({ options }, io) => {
  try {
    return await withExecutor(options, { ...io, err() {} }, async (gantry) => {
      const { items } = gantry.tools({ limit: 1_000 })
      await io.out(items.map(({ key }) => `${safeLine(key)}\n`).join(''))
      return 0
    })
  } catch {
    return 1
  }
}

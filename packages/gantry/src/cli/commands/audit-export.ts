import type { Command } from '../io.ts'
import { withService } from '../session.ts'
import { auditFilter } from './audit-ls.ts'

/** Writes the audit record as lines of JSON, oldest first. */
export const execute: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const { body } = await client.audit.export({ ...auditFilter(options), signal: io.signal })
    for await (const piece of body?.pipeThrough(new TextDecoderStream()) ?? []) await io.out(piece)
    return 0
  })

import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { moreText, tableText } from '../table.ts'

/** Lists keys, newest first. */
export const execute: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const { limit, cursor, tenant, json } = options
    const page = await client.keys.list({ limit, cursor, tenant, signal: io.signal })
    if (json === true) await printJson(page, io)
    else if (page.items.length === 0) await io.out('No keys.\n')
    else {
      const rows = page.items.map((key) => [
        ...[key.id, key.state, key.kind, key.name, key.tenant, key.principal, key.expiresAt, key.lastUsedAt ?? 'never'],
        [...key.permissions, ...(key.tools ?? []).map((tool) => `tool ${tool}`)].join(','),
      ])
      const head = ['key', 'state', 'kind', 'name', 'tenant', 'principal', 'expires', 'used', 'may']
      await io.out(tableText(head, rows, io) + moreText(page.cursor))
    }
    return 0
  })

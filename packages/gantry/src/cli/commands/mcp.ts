import { Writable } from 'node:stream'
import { contractVersion } from '@gantry/contract'
import { owner } from '@gantry/service/internal/serve/start'
import { findService } from '../find-service.ts'
import { followFolder } from '../follow-folder.ts'
import type { Command, Io } from '../io.ts'
import { withExecutor } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Speaks MCP with whoever started this process; nothing else is ever written to stdout. */
export const execute: Command = async ({ options }, io) => {
  const tell = (text: string): void => void (options.verbose === true && io.err(`${safeLine(text)}\n`))
  const ends = { input: process.stdin, output: outputOf(io), note: tell, signal: io.signal }
  const found = options.local === true ? undefined : await findService(options, io)
  if (found !== undefined && found.missing === undefined) {
    tell(`Asking the service at ${found.url}.`)
    const { bridge } = await import('@gantry/service/internal/mcp/bridge')
    await bridge({ url: found.url.replace(/(?<!\/)\/+$/, ''), key: found.key, ...ends })
    return 0
  }
  await withExecutor(options, io, async (gantry, loaded, again) => {
    const {
      options: { identity = owner },
      service,
    } = loaded
    const [{ serveOverStdio }, { executorHost }] = await Promise.all([
      import('@gantry/service/internal/mcp/stdio'),
      import('@gantry/service/internal/mcp/host'),
    ])
    const unfollow = followFolder(gantry, loaded, again, (text) => io.err(`warning: ${safeLine(text)}\n`))
    const host = executorHost(gantry)
    await serveOverStdio({ host, version: contractVersion, identity, ...service.mcp, ...ends }).finally(unfollow)
  })
  return 0
}

/** Stdout as a stream: what the process has under that name leads to stderr, so that no tool can write between. */
function outputOf(io: Io): Writable {
  return new Writable({
    decodeStrings: false,
    write(text, _encoding, done) {
      io.out(String(text)).then(() => done(), done)
    },
  })
}

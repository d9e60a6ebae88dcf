// The configuration of this example's service: two tools whose first run never ends, as when a machine fails.
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineTool } from 'gantry'

/** Reports that it has started, and waits until it is cancelled. */
function hang({ signal, progress }) {
  progress(0, { message: 'begun' })
  return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
}

const report = defineTool({
  namespace: 'report',
  name: 'build',
  description: 'Builds a report; doing it again does no harm.',
  effect: 'read',
  inputSchema: { type: 'object' },
  run(_args, context) {
    const seen = join(process.env.GANTRY_DATA ?? '.', 'first-run')
    if (existsSync(seen)) return { pages: 3 }
    writeFileSync(seen, '')
    return hang(context)
  },
})

const mail = defineTool({
  namespace: 'mail',
  name: 'send',
  description: 'Sends a letter, which must not happen twice.',
  effect: 'once',
  inputSchema: { type: 'object' },
  run: (_args, context) => hang(context),
})

export default { tools: [report, mail], demo: true }

import { createExecutor } from '@gantry/tools'
import { raw } from './backend.fixture.ts'
import { mcp } from './mcp.ts'

/** A host that starts a server which ends only when it is killed, tells its process id, and exits as its argument says. */
const gantry = createExecutor({ backends: [mcp({ name: 'test', command: raw('stubborn') })] })
const { output } = await gantry.run('test:pid', {})
process.stdout.write(`${(output as { readonly pid: number }).pid}\n`)
if (process.argv[2] === 'close') {
  const waiting = gantry.run('test:wait', {})
  await gantry.close({ graceMs: 50 })
  await waiting
}
process.exit(0)

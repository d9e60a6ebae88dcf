import { somePins } from '@gantry/conformance/internal/host-ports'
import { filePins } from './file.ts'

// A child process that saves pins one by one on a message: `saving.fixture.ts <file> <name>`.
const [file = '', name = ''] = process.argv.slice(2)
const store = filePins(file)
const { read } = somePins(name)

process.once('message', async (times) => {
  const signal = AbortSignal.timeout(25_000)
  for (let n = 0; n < Number(times); n++) await store.save('mcp:shared', { [`${name}${n}`]: read as never }, signal)
  await store.save(`mcp:${name}`, {}, signal)
  process.disconnect()
})
process.send?.('ready')

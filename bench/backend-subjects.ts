import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createExecutor, defineTool, grpc, http, mcp } from 'gantry'
import { protoFile } from './add-server.ts'
import { inputSchema, outputSchema } from './add-tool.ts'
import type { Run, Setup } from './measure.ts'

const serverFile = join(import.meta.dirname, 'add-server.ts')

/** Starts a server; it ends with this process, because its stdin closes then. */
async function startServer(kind: 'http' | 'grpc'): Promise<number> {
  const child = spawn(process.execPath, [serverFile, kind], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return Number(line.toString())
}

const definition = { namespace: 'bench', name: 'add', description: 'Adds two numbers.', inputSchema, outputSchema }

function checked(executor: ReturnType<typeof createExecutor>, id: string): Run {
  return async (n) => {
    const result = await executor.run(id, { a: n, b: 3 })
    if (result.status !== 'ok') throw new Error(`the call ended as ${result.status}: ${result.error?.message}`)
  }
}

/** Each protocol without Gantry and with it, against a server in a separate process. */
export const subjects: { readonly [name: string]: Setup } = {
  'http bare': async () => {
    const { Pool } = await import('undici')
    const pool = new Pool(`http://127.0.0.1:${await startServer('http')}`)
    const headers = { 'content-type': 'application/json' }
    return async (n) => {
      const body = JSON.stringify({ a: n, b: 3 })
      const answer = await pool.request({ path: '/add', method: 'POST', headers, body })
      return answer.body.json()
    }
  },
  'http gantry': async () => {
    const origin = `http://127.0.0.1:${await startServer('http')}`
    const tool = defineTool({ ...definition, backends: [{ kind: 'http', method: 'POST', path: '/add' }] })
    const egress = { allow: [{ origin, private: true }] }
    return checked(
      createExecutor({ tools: [tool], backends: [http({ name: 'bench', baseUrl: origin })], egress }),
      'bench:add',
    )
  },
  'grpc bare': async () => {
    const { credentials, loadPackageDefinition } = await import('@grpc/grpc-js')
    const { loadSync } = await import('@grpc/proto-loader')
    const { bench } = loadPackageDefinition(loadSync(protoFile)) as unknown as {
      readonly bench: { readonly Adder: import('@grpc/grpc-js').ServiceClientConstructor }
    }
    const client = new bench.Adder(`127.0.0.1:${await startServer('grpc')}`, credentials.createInsecure())
    return (n) =>
      new Promise((resolve, reject) => {
        client.add?.({ a: n, b: 3 }, (error: Error | null, value: unknown) => (error ? reject(error) : resolve(value)))
      })
  },
  'grpc gantry': async () => {
    const port = await startServer('grpc')
    const backend = grpc({ name: 'bench', address: `grpc://127.0.0.1:${port}`, proto: protoFile })
    const egress = { allow: [{ origin: `http://127.0.0.1:${port}`, private: true }] }
    const executor = createExecutor({ backends: [backend], egress })
    await executor.ready()
    const id = executor.tools({ namespace: 'bench' }).items[0]?.key
    if (id === undefined) throw new Error('the gRPC backend has no tool')
    return checked(executor, id)
  },
  'mcp bare': async () => {
    const { Client } = await import('@modelcontextprotocol/client')
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio')
    const client = new Client({ name: 'bench', version: '1.0.0' })
    await client.connect(new StdioClientTransport({ command: process.execPath, args: [serverFile, 'mcp'] }))
    await client.listTools()
    return (n) => client.callTool({ name: 'add', arguments: { a: n, b: 3 } })
  },
  'mcp gantry': async () => {
    const backend = mcp({ name: 'bench', command: [process.execPath, serverFile, 'mcp'] })
    const executor = createExecutor({ backends: [backend] })
    await executor.ready()
    return checked(executor, 'bench:add')
  },
}

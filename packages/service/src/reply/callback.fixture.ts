import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { parseWebhookKey, type Result } from '@gantry/contract'
import type { CallViews } from '../storage/call-views.ts'

/** A callback as its receiver got it. */
export interface Received {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface Receiver {
  readonly origin: string
  readonly url: string
  readonly port: number
  readonly received: Received[]
  close(): Promise<void>
}

export type Answer = (request: IncomingMessage, response: ServerResponse, count: number) => void

export const testKey = parseWebhookKey(`whsec_${Buffer.alloc(32, 9).toString('base64')}`)

/** A receiver of callbacks on loopback, closed with the test. */
export async function receiver(
  t: TestContext,
  answer: Answer = (_, response) => response.end(),
  port = 0,
): Promise<Receiver> {
  const received: Received[] = []
  const sockets = new Set<Socket>()
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (piece: string) => {
      body += piece
    })
    request.on('end', () => {
      received.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body })
      answer(request, response, received.length)
    })
  })
  server.on('connection', (socket) => {
    sockets.add(socket.on('error', () => {}))
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  }
  t.after(close)
  const { port: bound } = server.address() as AddressInfo
  const origin = `http://127.0.0.1:${bound}`
  return { origin, url: `${origin}/hook?x=1`, port: bound, received, close }
}

/** Outcomes without a database. */
export function knownOutcomes(...results: readonly Result[]): Pick<CallViews, 'outcomes'> {
  return {
    outcomes: async (callIds) =>
      new Map(results.filter(({ callId }) => callIds.includes(callId)).map((result) => [result.callId, result])),
  }
}

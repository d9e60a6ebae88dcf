import { figure, type Section } from './report.ts'
import { measureSubjects, p50Of } from './subjects.ts'

const labels: { readonly [name: string]: string } = {
  bare: 'bare fastify, no credential',
  'key file': '**Gantry**, the key file',
  key: '**Gantry**, a key of `gantry keys`',
  token: '**Gantry**, a token (ES256)',
  'signed request': '**Gantry**, a signed request, with its signing',
}

/** What the HTTP server of the service adds to a request, by kind of credential. */
export async function httpServer(): Promise<Section> {
  const measured = await measureSubjects('http-server-subjects.ts', Object.keys(labels), {
    rounds: 15,
    batchMs: 10,
    calls: 200,
  })
  const bare = p50Of(measured, 'bare')
  const rows = measured.map((one) => {
    const label = labels[one.name] ?? one.name
    if ('failed' in one) return [`${label}: not measured, ${one.failed}`]
    return [label, figure(one.p50), one.name === 'bare' ? '–' : figure(one.p50 - bare), figure(one.p5), figure(one.p99)]
  })
  const head = ['one request', 'p50 µs', 'over bare µs', 'p5 µs', 'p99 µs']
  return { title: 'The HTTP server', tables: [{ head, rows }], notes }
}

const notes = [
  'A POST of a call over one connection of this machine, client and server in one process; a stub behind the HTTP server answers at once. Gantry checks the Host, the credential and every member of the body; bare fastify parses the body. Keys and tokens are remembered for seconds, so that none is looked up. Of a signed request the client’s signature is in the figure, and the nonce’s row in the database is not.',
]

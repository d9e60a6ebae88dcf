import { readFileSync } from 'node:fs'
import { request } from 'node:https'

/** Sends requests to the API of the cluster of a kubeconfig that `startKubernetes` wrote. */
export function clusterApi(kubeconfig: string): (method: string, path: string, body?: object) => Promise<unknown> {
  const config = JSON.parse(readFileSync(kubeconfig, 'utf8'))
  const url: string = config.clusters[0].cluster.server
  const ca = Buffer.from(config.clusters[0].cluster['certificate-authority-data'], 'base64')
  const authorization = `Bearer ${config.users[0].user.token}`
  return (method, path, body) =>
    new Promise((resolve, reject) => {
      const patch = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
      const headers = { authorization, 'content-type': patch }
      const sent = request(new URL(path, url), { method, ca, headers, agent: false }, (answer) => {
        const pieces: Buffer[] = []
        answer.on('data', (piece: Buffer) => pieces.push(piece))
        answer.on('end', () => {
          const text = Buffer.concat(pieces).toString()
          if ((answer.statusCode ?? 0) >= 300) reject(new Error(`${method} ${path}: ${answer.statusCode} ${text}`))
          else resolve(text.startsWith('{') ? JSON.parse(text) : text)
        })
      })
      sent.on('error', reject)
      sent.end(body === undefined ? undefined : JSON.stringify(body))
    })
}

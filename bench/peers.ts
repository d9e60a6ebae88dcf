import { peerFolder } from './peer-folder.ts'

/** Exact versions, so that two runs compare like with like. */
export const peerVersions = {
  '@modelcontextprotocol/server': '2.4.0',
  '@modelcontextprotocol/client': '2.4.0',
  ai: '7.0.169',
  '@langchain/core': '1.2.13',
  ajv: '8.20.0',
  minisearch: '7.2.0',
  zod: '4.6.7',
} as const

/** The projects that a call, a catalog and a chain are compared with. */
export const { install: installPeers, load: importPeer } = peerFolder(peerVersions, 90)

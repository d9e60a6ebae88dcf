import { setTimeout as sleep } from 'node:timers/promises'
import {
  type BrokerReplies,
  type BrokerRepliesOptions,
  createBrokerReplies as sound,
} from '../../packages/service/src/reply/broker-replies.ts'

export { messageEncoder, replyFiles, replyFilesOf, replyHere } from '../../packages/service/src/reply/broker-replies.ts'

/** Long enough to be killed in. */
const lateMs = 3_000

/** Answers late, as when the broker takes its time. */
export function createBrokerReplies(options: BrokerRepliesOptions): BrokerReplies {
  const answers = sound(options)
  return { ...answers, tell: (...told) => void sleep(lateMs).then(() => answers.tell(...told)) }
}

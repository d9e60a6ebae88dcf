import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Answers,
  type AnswersOptions,
  createAnswers as sound,
} from '../../packages/service/src/reply/broker-replies.ts'

/** Long enough to be killed in. */
const lateMs = 3_000

/** Answers late, as when the broker takes its time. */
export function createAnswers(options: AnswersOptions): Answers {
  const answers = sound(options)
  return { ...answers, tell: (...told) => void sleep(lateMs).then(() => answers.tell(...told)) }
}

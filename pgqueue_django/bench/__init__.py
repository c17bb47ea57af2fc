"""What ``manage.py pgqueue_bench`` measures, and how.

The command makes a database of its own and starts one *lab* process, which knows that
database and nothing else of the project: no other app, no router, no DEBUG. The lab
starts workers, floors and listeners as processes of their own, and measures.

A *floor* is what a bare loop reaches on the same server: the measure of what is lost.
Floors run in the same run as what they are the measure of, by turns with it. Each
*figure* is one number for each repeat; its median and spread are what is told.
"""

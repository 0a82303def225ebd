# %% [markdown]
# # 05c · Sharded data parallelism: links and precision
#
# **70 minutes · difficulty 4 of 5 · needs: cpu**
#
# Part 3 of 4 · [1: states, shared out](05a_sharded_data_parallel.ipynb) · [2: whole while it
# computes](05b_whole_for_a_moment.ipynb) · [4: one model again](05d_one_model_again.ipynb)
